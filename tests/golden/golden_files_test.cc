#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/data/token_file.h"
#include "runtime/engine/data/window_order.h"
#include "runtime/ir/model/parameters.h"
#include "tests/golden/golden_job.h"

namespace medley {
namespace {

using nlohmann::json;

std::string AnyFolder() { return GENERATE(as<std::string>(), kGoldenGpt2, kGoldenLlama, kGoldenTiedLlama); }

void CheckOpensAs(const std::string& folder, const ModelConfig& expected) {
  const auto model = HuggingFaceModel::Open(folder);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(model->config() == expected);
  std::vector<float> values(
      static_cast<size_t>(SegmentElements(expected, SegmentOfBlock(expected.head_block()))));
  REQUIRE(model->ReadSegment(SegmentOfBlock(expected.head_block()), absl::MakeSpan(values)).ok());
  double gain = 0;  // of the final norm, which comes first
  for (int i = 0; i < expected.hidden; ++i) gain += values[static_cast<size_t>(i)] / expected.hidden;
  CHECK(gain == Approx(1.0).margin(0.05));
}

TEST_CASE("the golden models open as the GPT-2 and the Llamas they are") {
  CheckOpensAs(kGoldenGpt2,
               {.layers = 2, .hidden = 48, .heads = 4, .feed_forward = 192, .vocabulary = 97, .context = 32});
  CheckOpensAs(kGoldenLlama, {.layers = 2,
                              .hidden = 32,
                              .heads = 4,
                              .feed_forward = 56,
                              .vocabulary = 97,
                              .context = 32,
                              .family = ModelFamily::kLlama,
                              .tied_head = false,
                              .key_value_heads = 2,
                              .head_size = 12,
                              .rotary_base = 2000,
                              .rotary_scaling = RotaryScaling{8, 1, 4, 32}});
  CheckOpensAs(kGoldenTiedLlama, {.layers = 2,
                                  .hidden = 32,
                                  .heads = 4,
                                  .feed_forward = 56,
                                  .vocabulary = 97,
                                  .context = 32,
                                  .norm_epsilon = 1e-6f,
                                  .family = ModelFamily::kLlama,
                                  .tied_head = true,
                                  .key_value_heads = 1,
                                  .head_size = 8});
}

TEST_CASE("the golden tokens are two windows more than seven steps, and all in the vocabulary") {
  const std::string folder = AnyFolder();
  CAPTURE(folder);
  const json training = Golden(folder)["training"];
  const int sequence = training["sequence"];
  const auto tokens = TokenFile::Open(folder + "/tokens.bin", TokenFormat::kAutomatic, 97);
  const auto validation = TokenFile::Open(folder + "/validation.bin", TokenFormat::kAutomatic, 97);
  REQUIRE(tokens.ok());
  REQUIRE(validation.ok());
  const auto order = WindowOrder::Create({.tokens = tokens->tokens(),
                                          .sequence = sequence,
                                          .global_batch_sequences = training["global_batch_sequences"]});
  REQUIRE(order.ok());
  CHECK(order->windows() == 30);
  CHECK(order->steps_per_epoch() == 7);
  CHECK(WindowCount(validation->tokens(), sequence) == 8);
  std::vector<int32_t> ids(static_cast<size_t>(tokens->tokens()));
  CHECK(tokens->Read(0, absl::MakeSpan(ids)).ok());
  ids.resize(static_cast<size_t>(validation->tokens()));
  CHECK(validation->Read(0, absl::MakeSpan(ids)).ok());
}

TEST_CASE("the golden numbers cover every step and tensor, and the loss falls below that of guessing") {
  const std::string folder = AnyFolder();
  CAPTURE(folder);
  const json golden = Golden(folder);
  const auto config = ReadModelConfig(folder);
  REQUIRE(config.ok());
  for (const char* precision : {"float32", "float64"}) {
    CAPTURE(precision);
    const json& run = golden[precision];
    CHECK(run["losses"].size() == golden["training"]["steps"]);
    CHECK(run["gradient_norms"].size() == golden["training"]["steps"]);
    CHECK(run["losses"].back().get<double>() < std::log(97.0));
    for (const PlacedParameter& placed : LayoutOf(*config, {{0, config->blocks()}}).parameters) {
      CAPTURE(placed.spec.name);
      for (const char* part : {"step_1_gradients", "final_parameters"}) {
        const json& sample = run[part].at(placed.spec.name);
        CHECK(sample["norm"].get<double>() > 0);
        CHECK(sample["indices"].size() == sample["values"].size());
        CHECK(sample["indices"].back().get<int64_t>() == placed.spec.elements - 1);
      }
    }
  }
}

}  // namespace
}  // namespace medley

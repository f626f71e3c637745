#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/hugging_face.h"
#include "runtime/data/token_file.h"
#include "runtime/data/window_order.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

using nlohmann::json;

const std::string kFolder = "tests/golden/gpt2_tiny";  // from the root of the repository, where tests run

json Golden() { return json::parse(std::ifstream(kFolder + "/golden.json")); }

TEST_CASE("the golden model opens as the GPT-2 it is") {
  const auto model = HuggingFaceModel::Open(kFolder);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(
      model->config() ==
      ModelConfig{.layers = 2, .hidden = 48, .heads = 4, .feed_forward = 192, .vocabulary = 97, .context = 32});
  std::vector<float> final_norm(96);
  REQUIRE(model->ReadSegment(SegmentOfBlock(model->config().head_block()), absl::MakeSpan(final_norm)).ok());
  double gain = 0, bias = 0;
  for (size_t i = 0; i < 48; ++i) gain += final_norm[i] / 48, bias += final_norm[48 + i] / 48;
  CHECK(gain == Approx(1.0).margin(0.05));
  CHECK(bias == Approx(0.0).margin(0.05));
}

TEST_CASE("the golden tokens are two windows more than seven steps, and all in the vocabulary") {
  const json training = Golden()["training"];
  const int sequence = training["sequence"];
  const auto tokens = TokenFile::Open(kFolder + "/tokens.bin", TokenFormat::kAutomatic, 97);
  const auto validation = TokenFile::Open(kFolder + "/validation.bin", TokenFormat::kAutomatic, 97);
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
  const json golden = Golden();
  const auto config = ReadModelConfig(kFolder);
  REQUIRE(config.ok());
  for (const char* precision : {"float32", "float64"}) {
    CAPTURE(precision);
    const json& run = golden[precision];
    CHECK(run["losses"].size() == golden["training"]["steps"]);
    CHECK(run["gradient_norms"].size() == golden["training"]["steps"]);
    CHECK(run["losses"].back().get<double>() < std::log(97.0));
    for (const PlacedParameter& placed : LayoutOf(*config, {0, config->blocks()}).parameters) {
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

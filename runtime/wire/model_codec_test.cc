#include "runtime/wire/model_codec.h"

#include <catch2/catch.hpp>
#include <random>

#include "runtime/ir/model/model_check.h"
#include "runtime/wire/random_message.h"

namespace medley {
namespace {

constexpr uint32_t kSequence = 32;

v1::ModelSpec SmallLlama() {
  v1::ModelSpec model;
  v1::LlamaSpec& llama = *model.mutable_llama();
  llama.set_layers(2);
  llama.set_hidden(64);
  llama.set_heads(4);
  llama.set_feed_forward(96);
  return model;
}

TEST_CASE("what a Llama leaves out is filled in as the proto says") {
  const absl::StatusOr<ModelConfig> config = DecodeModel(SmallLlama(), kSequence, std::nullopt);
  REQUIRE(config.status().ToString() == "OK");
  CHECK(*config == ModelConfig{.layers = 2,
                               .hidden = 64,
                               .heads = 4,
                               .feed_forward = 96,
                               .vocabulary = 256,
                               .context = 32,
                               .norm_epsilon = 1e-5f,
                               .family = ModelFamily::kLlama,
                               .tied_head = false,
                               .key_value_heads = 4,
                               .head_size = 16,
                               .rotary_base = 10000});
  v1::ModelSpec scaled = SmallLlama();
  scaled.mutable_llama()->mutable_rotary_scaling();
  CHECK(DecodeModel(scaled, kSequence, std::nullopt)->rotary_scaling == RotaryScaling{8, 1, 4, 8192});
}

TEST_CASE("what a Llama gives is taken") {
  v1::ModelSpec model = SmallLlama();
  v1::LlamaSpec& llama = *model.mutable_llama();
  llama.set_key_value_heads(2);
  llama.set_head_size(24);
  llama.set_vocabulary(128256);
  llama.set_context(131072);
  llama.set_norm_epsilon(1e-6);
  llama.set_rotary_base(500000);
  llama.set_tied_head(true);
  llama.mutable_rotary_scaling()->set_factor(32);
  llama.mutable_rotary_scaling()->set_low_frequency_factor(2);
  llama.mutable_rotary_scaling()->set_high_frequency_factor(3);
  llama.mutable_rotary_scaling()->set_original_context(4096);
  const absl::StatusOr<ModelConfig> config = DecodeModel(model, kSequence, std::nullopt);
  REQUIRE(config.status().ToString() == "OK");
  CHECK(*config == ModelConfig{.layers = 2,
                               .hidden = 64,
                               .heads = 4,
                               .feed_forward = 96,
                               .vocabulary = 128256,
                               .context = 131072,
                               .norm_epsilon = 1e-6f,
                               .family = ModelFamily::kLlama,
                               .tied_head = true,
                               .key_value_heads = 2,
                               .head_size = 24,
                               .rotary_base = 500000,
                               .rotary_scaling = RotaryScaling{32, 2, 3, 4096}});
  CHECK(ModelFieldPath(model) == "model.llama");
}

struct Mistake {
  void (*spoil)(v1::ModelSpec&);
  std::string error;
};

TEST_CASE("dimensions that do not go together are refused by name") {
  const auto mistake = GENERATE(values<Mistake>({
      {[](v1::ModelSpec& m) { m.mutable_gpt2(); },
       "model: has gpt2 and llama; exactly one of gpt2, llama and hugging_face is allowed"},
      {[](v1::ModelSpec& m) { m.Clear(); },
       "model: has none; exactly one of gpt2, llama and hugging_face is allowed"},
      {[](v1::ModelSpec& m) { m.mutable_llama()->set_heads(5); },
       "model.llama.heads: 5 does not divide hidden, 64"},
      {[](v1::ModelSpec& m) { m.mutable_llama()->set_key_value_heads(3); },
       "model.llama.key_value_heads: 3 does not divide heads, 4"},
      {[](v1::ModelSpec& m) { m.mutable_llama()->set_head_size(7); },
       "model.llama.head_size: 7 is not even; rotary positions turn pairs"},
      {[](v1::ModelSpec& m) { m.mutable_llama()->mutable_rotary_scaling()->set_low_frequency_factor(4); },
       "model.llama.rotary_scaling: the low-frequency factor, 4, must be less than the high-frequency "
       "factor, 4"},
  }));
  v1::ModelSpec model = SmallLlama();
  mistake.spoil(model);
  const absl::Status status = DecodeModel(model, kSequence, std::nullopt).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == mistake.error);
}

TEST_CASE("any valid message gives a model that there can be, or is refused") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{1000}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  v1::ModelSpec model;
  FillRandomly(random() % 2 == 0 ? static_cast<google::protobuf::Message&>(*model.mutable_gpt2())
                                 : *model.mutable_llama(),
               random);
  // Right by chance too seldom.
  if (model.has_llama() && random() % 2 == 0) model.mutable_llama()->set_key_value_heads(0);
  if (model.has_llama() && random() % 2 == 0) model.mutable_llama()->set_head_size(2 + 2 * (random() % 100));
  const absl::StatusOr<ModelConfig> config = DecodeModel(model, kSequence, std::nullopt);
  if (!config.ok()) {
    CHECK_FALSE(config.status().message().empty());
    return;
  }
  CHECK(CheckModel(*config).ToString() == "OK");
  CHECK((config->family == ModelFamily::kLlama) == model.has_llama());
  CHECK(config->joined_width() > 0);
  CHECK((config->head_size > 0) == model.has_llama());
}

}  // namespace
}  // namespace medley

#include "kernels/emulated/emulation_profile.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_replace.h"

namespace medley {
namespace {

const std::string kText = R"(kind: A100-80GB
memory_bytes: 80GiB
matmul_f32_flops_per_second: 60e12
matmul_bf16_flops_per_second: 2.2e14
memory_bytes_per_second: 1.6e12
host_link_bytes_per_second: 20e9
op_overhead_seconds: 4e-6
attention_efficiency: 0.5
layers:
  - {hidden: 1024, feed_forward: 4096, heads: 16, sequence: 512, micro_batch: 4, precision: f32,
     forward_ms: 2.5, backward_ms: 5}
  - {family: llama, hidden: 1024, feed_forward: 2816, heads: 16, key_value_heads: 4, sequence: 512, micro_batch: 4,
     precision: bf16, forward_ms: 1, backward_ms: 2}
)";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = absl::StrReplaceAll(kText, {{from, to}});
  REQUIRE(text != kText);
  return text;
}

TEST_CASE("every key of a profile has its value") {
  const absl::StatusOr<EmulationProfile> profile = ParseEmulationProfile(kText, "a.yaml");
  REQUIRE(profile.status().ToString() == "OK");
  CHECK(profile->kind == "A100-80GB");
  CHECK(profile->memory == GiB(80));
  CHECK(profile->matmul_f32_flops_per_second == 60e12);
  CHECK(profile->matmul_bf16_flops_per_second == 220e12);
  CHECK(profile->memory_bytes_per_second == 1.6e12);
  CHECK(profile->host_link_bytes_per_second == 20e9);
  CHECK(profile->op_overhead_seconds == 4e-6);
  CHECK(profile->attention_efficiency == 0.5);
  REQUIRE(profile->layers.size() == 2);
  const MeasuredLayer &first = profile->layers[0], &second = profile->layers[1];
  CHECK(first.family == MeasuredLayer::Family::kGpt2);
  CHECK(first.key_value_heads == 16);
  CHECK(first.micro_batch == 4);
  CHECK(first.forward_seconds == Approx(2.5e-3));
  CHECK(first.backward_seconds == Approx(5e-3));
  CHECK(second.family == MeasuredLayer::Family::kLlama);
  CHECK(second.key_value_heads == 4);
  CHECK(second.precision == Precision::kBf16);
}

TEST_CASE("what may be left out has its default, and any change gives another digest") {
  const std::string text = Replaced("matmul_bf16_flops_per_second: 2.2e14\n", "");
  const absl::StatusOr<EmulationProfile> less =
      ParseEmulationProfile(text.substr(0, text.find("attention")), "a.yaml");
  REQUIRE(less.status().ToString() == "OK");
  CHECK(less->matmul_bf16_flops_per_second == 0);
  CHECK(less->attention_efficiency == 0.5);
  CHECK(less->layers.empty());
  CHECK(less->digest.size() == 8);
  CHECK(less->digest != ParseEmulationProfile(kText, "a.yaml")->digest);
  CHECK(ParseEmulationProfile(kText, "a.yaml")->digest == ParseEmulationProfile(kText, "b.yaml")->digest);
}

TEST_CASE("a profile that cannot be is refused with its line, its field and what is allowed") {
  struct Case {
    std::string from, to, message;
  };
  const Case c = GENERATE(values<Case>({
      {"kind: A100-80GB\n", "", "a.yaml:1: kind: is missing"},
      {"kind: A100-80GB", "kind: A 100", "a.yaml:1: kind: \"A 100\" is not 1 to 64 letters"},
      {"80GiB", "80 potatoes", "a.yaml:2: memory_bytes: \"80 potatoes\" is not a size"},
      {"80GiB", "1KiB", "a.yaml:2: memory_bytes: \"1KiB\" is not a size from 1MiB"},
      {"60e12", "fast", "a.yaml:3: matmul_f32_flops_per_second: \"fast\" is not a number in [1e+06, 1e+18]"},
      {"60e12", "-1", "a.yaml:3: matmul_f32_flops_per_second: \"-1\" is not"},
      {"60e12", ".nan", "a.yaml:3: matmul_f32_flops_per_second: \".nan\" is not"},
      {"60e12", "[1]", "a.yaml:3: matmul_f32_flops_per_second: must be one value"},
      {"op_overhead_seconds", "overhead", "a.yaml:7: overhead: unknown key; known are attention_efficiency"},
      {"efficiency: 0.5", "efficiency: 1.5",
       "a.yaml:8: attention_efficiency: \"1.5\" is not a number in [0.001, 1]"},
      {"attention_efficiency: 0.5", "kind: x", "a.yaml:8: kind: given twice"},
      {"forward_ms: 2.5, ", "", "layers[0].forward_ms: is missing"},
      {"forward_ms: 2.5", "forward_ms: 0", "a.yaml:11: layers[0].forward_ms: \"0\" is not a number"},
      {"hidden: 1024, feed_forward: 4096", "hidden: 1023, feed_forward: 4096",
       "layers[0].heads: 16 does not divide hidden, 1023"},
      {"micro_batch: 4, precision: f32", "micro_batch: 0, precision: f32",
       "layers[0].micro_batch: \"0\" is not a whole number in [1, 65536]"},
      {"precision: f32", "precision: f64", "layers[0].precision: \"f64\" is none of: bf16, f16, f32"},
      {"matmul_bf16_flops_per_second: 2.2e14\n", "",
       "layers[1].precision: is bf16, but the device has no matmul_bf16_flops_per_second"},
      {"family: llama", "family: bert", "layers[1].family: \"bert\" is none of: gpt2, llama"},
      {"family: llama", "family: gpt2", "layers[1].key_value_heads: of gpt2 must equal heads"},
      {"key_value_heads: 4", "key_value_heads: 3", "layers[1].key_value_heads: 3 does not divide heads, 16"},
      {"layers:\n", "layers: x\nmore:\n", "unknown key"},
      {"kind:", "- kind:", "a.yaml:"},
      {"kind: A100-80GB", "kind: {", "no YAML"},
  }));
  const absl::Status status = ParseEmulationProfile(Replaced(c.from, c.to), "a.yaml").status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(c.message));
}

TEST_CASE("a layer that is measured twice is refused, also with other times") {
  const std::string layer =
      "  - {hidden: 1024, feed_forward: 4096, heads: 16, sequence: 512, micro_batch: 4, precision: f32, "
      "forward_ms: 9, "
      "backward_ms: 9}\n";
  const absl::Status status = ParseEmulationProfile(kText + layer, "a.yaml").status();
  CHECK(status.message() == "a.yaml:14: layers[2]: is of the same shape as one before");
}

TEST_CASE("an empty document and a missing file are errors that name the file") {
  CHECK(absl::IsInvalidArgument(ParseEmulationProfile("", "a.yaml").status()));
  const absl::Status status = ReadEmulationProfile("/nowhere/a.yaml").status();
  CHECK(absl::IsNotFound(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("/nowhere/a.yaml"));
}

}  // namespace
}  // namespace medley

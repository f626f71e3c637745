#include "tests/perf/prediction/grouped_pipeline.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

PublishedRow Llama7B(const std::string& note) {
  return {.model = "Llama 7B",
          .note = note,
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .sequence = 4096,
          .global_batch = 256,
          .step_seconds = 1};
}

// A layer takes a sequence so long forward and twice as long backward, on either kind of cluster A.
LayerLibrary Library(double seconds) {
  LayerLibrary library;
  for (const char* kind : {"a100x80", "h100-nvl"}) {
    library.layers[std::string("deepspeedllama_7b ") + kind + " 4096"] = {{seconds}, {2 * seconds}};
  }
  library.layer_parameters["deepspeedllama_7b"] = 2e8;
  return library;
}

const char kZorse[] = "HETEROGENEOUS cluster A, system Zorse; cluster total 4370.56 TFLOPS printed";

TEST_CASE("a pipeline of groups takes at least what all of its devices compute, and not much longer") {
  const absl::StatusOr<double> seconds = GroupedPipelineSeconds(Llama7B(kZorse), Library(10));
  REQUIRE(seconds.ok());
  // Twenty devices, the forward made again.
  const double shared_evenly = 32 * 256 * (10.0 + 10 + 20) / 20;
  CHECK(*seconds > shared_evenly);
  CHECK(*seconds < 1.4 * shared_evenly);
}

TEST_CASE("what groups gather is added to what they compute") {
  const double alone = *GroupedPipelineSeconds(Llama7B(kZorse), Library(1e-3));
  LayerLibrary larger = Library(1e-3);
  larger.layer_parameters["deepspeedllama_7b"] *= 100;
  CHECK(*GroupedPipelineSeconds(Llama7B(kZorse), larger) > alone);
}

TEST_CASE("another system's plan, or a kind that was not measured, is not predicted") {
  const absl::Status other =
      GroupedPipelineSeconds(Llama7B("cluster A, system HexiScale"), Library(1)).status();
  CHECK(absl::IsFailedPrecondition(other));
  CHECK(other.message() == "a plan of another system, which is not published");
  LayerLibrary without = Library(1);
  without.layers.erase("deepspeedllama_7b h100-nvl 4096");
  CHECK(GroupedPipelineSeconds(Llama7B(kZorse), without).status().message() ==
        "a layer was not measured on one of its kinds");
}

TEST_CASE("a folder without measurements is refused") {
  CHECK(absl::IsNotFound(ReadLayerLibrary("no/such/folder").status()));
}

}  // namespace
}  // namespace medley

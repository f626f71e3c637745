#include "tests/perf/prediction/published_runs.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

PublishedRow Row(const std::string& source) {
  return {.source = source,
          .recompute = "full",
          .layers = 24,
          .hidden = 2048,
          .heads = 16,
          .feed_forward = 8192,
          .vocabulary = 50257,
          .sequence = 1024,
          .global_batch = 32,
          .micro_batch = 4,
          .ranks = 2,
          .stages = 2,
          .replicas = 2,
          .devices = 8,
          .step_seconds = 1};
}

TEST_CASE("a row is read as its source means it") {
  const absl::StatusOr<PublishedRun> run =
      RunOf(Row("VIA-Research/vTrain @f8dda84 data/ground_truth_single.csv"));
  REQUIRE(run.ok());
  CHECK(run->study == "vtrain");
  CHECK(run->kind == "A100-40");
  CHECK(run->run.MicroBatches() == 4);
  CHECK(run->run.recompute == Recompute::kLayers);
  // Two ranks have equal multiples of 128 rows.
  CHECK(run->run.shape.model.vocabulary == 50432);
}

TEST_CASE("a row that cannot be predicted says why") {
  const auto reason = [](PublishedRow row) { return std::string(RunOf(row).status().message()); };
  PublishedRow row = Row("VIA-Research/vTrain");
  row.sequence = 0;
  CHECK(reason(row) == "the length of the sequences is not said");
  row = Row("VIA-Research/vTrain");
  row.global_batch = 4;
  CHECK(reason(row) == "less than a micro-batch for each replica");
  CHECK(reason(Row("somebody's blog")) == "a source that is not read");
  CHECK(StudyOf(Row("somebody's blog")) == "other");
  row = Row("eth-easl/sailor");
  row.device = "8xGH-96";
  row.note = "measured; layers per stage (incl. embedding/head pseudo-layers) 12/14; stages";
  CHECK(RunOf(row).ok());
  row.note = "measured; layers per stage (incl. embedding/head pseudo-layers) 12/16; stages";
  CHECK(reason(row) == "its plan is of another model than it says");
}

TEST_CASE("a memory that three equal layouts contradict is left out") {
  std::vector<PublishedRun> runs;
  for (const double memory : {34.7, 26.6, 34.9, 34.8}) {
    runs.push_back(*RunOf(Row("VIA-Research/vTrain")));
    runs.back().memory_gibibytes = memory;
  }
  runs.push_back(runs[1]);
  runs.back().run.ranks = 4;  // another layout
  std::map<std::string, int> excluded;
  LeaveOutContradictedMemory(runs, excluded);
  CHECK(runs[0].memory_gibibytes == 34.7);
  CHECK(runs[1].memory_gibibytes == 0);
  CHECK(runs[4].memory_gibibytes == 26.6);
  CHECK(excluded == std::map<std::string, int>{
                        {"memories of vtrain: contradicted by three runs whose ranks hold the same", 1}});
}

}  // namespace
}  // namespace medley

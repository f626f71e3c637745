#include "coordinator/orchestrator/job_beginning.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store/store_under_test.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checkpoint.h"

namespace medley {
namespace {

const ModelConfig kModel = {
    .layers = 1, .hidden = 4, .heads = 1, .feed_forward = 8, .vocabulary = 8, .context = 8};
constexpr char kRun[] = "run";

void WriteCheckpoint(const std::string& root, int64_t step, int64_t first_record) {
  CheckpointManifest manifest = {.job = "tiny",
                                 .run = kRun,
                                 .step = step,
                                 .model = kModel,
                                 .data = {.steps = step, .sequence = 8, .global_batch_sequences = 4}};
  for (SegmentId segment = 0; segment < SegmentCount(kModel); ++segment) {
    const std::vector<float> values(static_cast<size_t>(SegmentElements(kModel, segment)));
    const auto record =
        WriteSegment(CheckpointDirectory(root, step), segment,
                     CutSegment(kModel, segment, absl::Span<const float>(values), values, values));
    REQUIRE(record.ok());
    manifest.files.push_back(*record);
  }
  for (int64_t trained = first_record; trained <= step; ++trained)
    manifest.steps.push_back({.step = trained, .loss = static_cast<double>(trained), .seconds = 1});
  REQUIRE(CommitManifest(root, manifest).ok());
}

TEST_CASE("what steps showed of which nobody was told comes from the checkpoints that they led to") {
  const TemporaryDirectory root;
  WriteCheckpoint(root.path(), 4, 3);  // known already, all of it
  WriteCheckpoint(root.path(), 8, 7);
  WriteCheckpoint(root.path(), 12, 9);

  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  JobJournal journal(*store);
  v1::Job job = *store->InsertJob(SpecNamed("tiny"), "", 1);
  const std::string id = job.id();
  job.set_run_id(kRun);
  job.set_attempt(2);
  job.mutable_last_step()->set_step(5);
  job.mutable_last_step()->set_attempt(1);
  job.set_highest_step(5);
  REQUIRE(journal.Change(id, [&](v1::Job& known) { known = job; }).ok());

  TrainingSpec training;
  training.checkpoint_directory = root.path();
  const absl::StatusOr<Beginning> beginning = BeginningOf(training, job, {}, journal);
  REQUIRE(beginning.ok());
  CHECK(beginning->checkpoint == CheckpointDirectory(root.path(), 12));
  journal.Flush();

  std::vector<uint32_t> steps;
  const auto listed = store->ListSteps(id, 0);
  for (const v1::StepMetrics& step : *listed) {
    steps.push_back(step.step());
    CHECK(step.loss() == step.step());
    CHECK(step.tokens() == 4 * 8);
    CHECK(step.attempt() == 1);
  }
  CHECK(steps == std::vector<uint32_t>{7, 8, 9, 10, 11, 12});
  const v1::Job after = *journal.Get(id);
  CHECK(after.last_step().step() == 12);
  CHECK(after.highest_step() == 12);
  CHECK(after.tokens_total() == 6 * 4 * 8);
  std::vector<std::string> log;
  const auto lines = store->ListLogs(id, 10);
  for (const v1::LogLine& line : *lines) log.push_back(line.text());
  CHECK(log == std::vector<std::string>{
                   "the metrics of steps 6 to 6 were never told",
                   "steps from 7 to 12 were trained while nobody was told; checkpoints say how"});

  // Again: it is known now.
  REQUIRE(BeginningOf(training, after, {}, journal).ok());
  journal.Flush();
  CHECK(store->ListSteps(id, 0)->size() == 6);
  CHECK(store->ListLogs(id, 10)->size() == 2);
}

TEST_CASE("of a job that began from another run's checkpoint what that run trained is not missing") {
  const TemporaryDirectory root;
  WriteCheckpoint(root.path(), 12, 11);
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = OpenStore(directory);
  JobJournal journal(*store);
  v1::Job job = *store->InsertJob(SpecNamed("tiny"), "", 1);
  job.set_run_id(kRun);
  job.set_attempt(2);
  TrainingSpec training;
  training.checkpoint_directory = root.path();
  training.resume_from = "/elsewhere/step-00000010";
  REQUIRE(BeginningOf(training, job, {}, journal).ok());
  journal.Flush();
  CHECK(store->ListSteps(job.id(), 0)->size() == 2);
  const auto lines = store->ListLogs(job.id(), 10);
  REQUIRE(lines->size() == 1);
  CHECK(lines->front().text() ==
        "steps from 11 to 12 were trained while nobody was told; checkpoints say how");
}

}  // namespace
}  // namespace medley

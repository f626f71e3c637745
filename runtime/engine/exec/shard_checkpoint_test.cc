#include "runtime/engine/exec/shard_checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/exec/gather_segments.h"
#include "runtime/engine/exec/made_up_windows.h"
#include "runtime/engine/exec/unlike_plans.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

constexpr int64_t kStep = 3;

TrainingSpec SpecOf(const ModelConfig& model, const std::string& directory) {
  TrainingSpec spec;
  spec.job_name = "shared";
  spec.shape = {.model = model, .sequence = 6, .global_batch_sequences = kUnlikeBatch};
  spec.steps = 12;
  spec.checkpoint_directory = directory;
  spec.checkpoint_every_steps = kStep;
  spec.checkpoint_keep = 2;
  return spec;
}

absl::StatusOr<Device> OpenReference() {
  return ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
}

// A rank's shard, everything zero.
absl::StatusOr<std::unique_ptr<ModelShard>> OpenShard(Device& device, const TrainingSpec& spec,
                                                      const Plan& plan, Rank rank) {
  const StepProgram program = CompileStep(plan, rank, spec.shape, Purpose::kTrain);
  return ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, spec.precision));
}

struct Saved {
  absl::Status status;  // of the call
  SavedCheckpoint checkpoint;
};

// What each rank is told when all of the plan but `gone` save made-up values, as its one of `specs` says.
std::vector<Saved> Save(const std::vector<TrainingSpec>& specs, const Plan& plan, Rank gone = -1) {
  const int ranks = RankCount(plan);
  LoopbackFabric fabric(ranks);
  std::vector<Saved> saved(ranks);
  const auto save = [&](Rank rank) -> absl::StatusOr<SavedCheckpoint> {
    const TrainingSpec& spec = specs[rank];
    ASSIGN_OR_RETURN(Device device, OpenReference());
    ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard, OpenShard(device, spec, plan, rank));
    RETURN_IF_ERROR(FillWithMadeUp(spec.shape.model, shard->arena()));
    const std::unique_ptr<Transport> transport = fabric.Join(rank);
    MadeUpWindows windows(3, spec.shape.model.vocabulary);
    StepExecutor executor({.spec = spec, .plan = plan, .rank = rank}, *shard, *transport, windows);
    absl::StatusOr<SavedCheckpoint> result = absl::CancelledError("gone");
    if (rank != gone) result = SaveCheckpoint(spec, {}, kStep, *shard, executor);
    if (!result.ok()) fabric.MarkGone(rank);
    return result;
  };
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const absl::StatusOr<SavedCheckpoint> result = save(rank);
      saved[rank].status = result.status();
      if (result.ok()) saved[rank].checkpoint = *result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return saved;
}

void MustSave(const TrainingSpec& spec, const Plan& plan) {
  for (const Saved& saved : Save(std::vector<TrainingSpec>(RankCount(plan), spec), plan)) {
    INFO(saved.status.ToString() << " " << saved.checkpoint.written.ToString());
    REQUIRE(saved.status.ok());
    REQUIRE(saved.checkpoint.written.ok());
    CHECK(saved.checkpoint.tidied.ok());
  }
}

// Name and content of each file of the checkpoint.
std::map<std::string, std::string> FilesOf(const TrainingSpec& spec) {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(CheckpointDirectory(spec.checkpoint_directory, kStep))) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// All that an arena has of `parts`.
std::vector<std::vector<float>> HeldValues(const ParameterArena& arena, absl::Span<const Part> parts) {
  std::vector<std::vector<float>> held;
  for (const SegmentId segment : arena.layout().segments) {
    for (const Part part : parts) {
      held.emplace_back(arena.SegmentSize(part, segment).value());
      REQUIRE(arena.ReadSegment(part, segment, absl::MakeSpan(held.back())).ok());
    }
  }
  return held;
}

// Holds what each rank of `plan` has after `load` against the made-up values.
void CheckLoaded(const TrainingSpec& spec, const Plan& plan, absl::Span<const Part> parts,
                 const std::function<absl::Status(ModelShard&)>& load) {
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    CAPTURE(rank.value());
    Device device = *OpenReference();
    const std::unique_ptr<ModelShard> loaded = *OpenShard(device, spec, plan, rank),
                                      want = *OpenShard(device, spec, plan, rank);
    REQUIRE(FillWithMadeUp(spec.shape.model, want->arena()).ok());
    CHECK(load(*loaded).ToString() == "OK");
    CHECK(HeldValues(loaded->arena(), parts) == HeldValues(want->arena(), parts));
  }
}

TEST_CASE(
    "whoever shares a model saves the files that one rank alone does, and every plan goes on from them to "
    "the "
    "bit") {
  const ModelConfig model = ModelsToShare()[GENERATE(0, 1, 2)];
  CAPTURE(FamilyOf(model).name, model.tied_head);
  const TemporaryDirectory directory;
  const std::vector<NamedPlan> plans = UnlikePlans(model);
  std::map<std::string, std::string> of_one;
  for (const NamedPlan& before : plans) {
    CAPTURE(before.name);
    const TrainingSpec spec = SpecOf(model, directory.File(before.name));
    MustSave(spec, before.plan);
    const std::map<std::string, std::string> files = FilesOf(spec);
    REQUIRE(files.size() == static_cast<size_t>(SegmentCount(model)) + 1);
    if (of_one.empty()) of_one = files;
    CHECK(files == of_one);
  }
  const TrainingSpec spec = SpecOf(model, directory.File(plans.back().name));
  const absl::StatusOr<CheckpointManifest> manifest =
      ReadManifest(CheckpointDirectory(spec.checkpoint_directory, kStep));
  REQUIRE(manifest.ok());
  const std::string exported = directory.File("exported");
  REQUIRE(ExportHuggingFace(*manifest, exported).ToString() == "OK");
  for (const NamedPlan& after : plans) {
    CAPTURE(after.name);
    CheckLoaded(spec, after.plan, kSavedParts,
                [&](ModelShard& shard) { return LoadCheckpoint(*manifest, spec, shard); });
    CheckLoaded(spec, after.plan, {Part::kParameter},
                [&](ModelShard& shard) { return LoadHuggingFace(exported, shard); });
  }
}

TEST_CASE(
    "a rank that cannot write takes what its unit gives it: all are told who it was, and the next try is "
    "whole") {
  const ModelConfig model = ModelsToShare()[GENERATE(0, 1)];
  const int p = GENERATE(range(1, kUnlikePlans));
  const NamedPlan named = UnlikePlans(model)[p];
  const Rank culprit = GENERATE_COPY(range(0, RankCount(named.plan)));
  CAPTURE(FamilyOf(model).name, named.name, culprit.value());
  if (SavedSegments(named.plan, culprit, model).empty()) return;  // it writes nothing
  const TemporaryDirectory directory;
  const TrainingSpec spec = SpecOf(model, directory.File("job"));
  std::vector<TrainingSpec> specs(RankCount(named.plan), spec);
  specs[culprit].checkpoint_directory =
      directory.Write("a file", "") + "/job";  // no directory can be made there
  for (const Saved& saved : Save(specs, named.plan)) {
    CHECK(saved.status.ToString() == "OK");
    CHECK_FALSE(saved.checkpoint.written.ok());
    CHECK_THAT(std::string(saved.checkpoint.written.message()),
               Catch::StartsWith(absl::StrCat("rank ", culprit.value(), " (test/", culprit.value(), "): ")));
  }
  // Rank 0 removes the folder of the step, if it can see it; the files are gone either way.
  const std::string left = CheckpointDirectory(spec.checkpoint_directory, kStep);
  CHECK((!std::filesystem::exists(left) || (culprit == 0 && std::filesystem::is_empty(left))));
  MustSave(spec, named.plan);
  const TrainingSpec alone = SpecOf(model, directory.File("alone"));
  MustSave(alone, UnlikePlans(model)[0].plan);
  CHECK(FilesOf(spec) == FilesOf(alone));
}

TEST_CASE("a rank that is gone ends the saving of all") {
  const ModelConfig model = ModelsToShare()[0];
  const NamedPlan named = UnlikePlans(model)[GENERATE(range(1, kUnlikePlans))];
  const Rank gone = GENERATE_COPY(range(0, RankCount(named.plan)));
  CAPTURE(named.name, gone.value());
  const TemporaryDirectory directory;
  const TrainingSpec spec = SpecOf(model, directory.File("job"));
  const std::vector<Saved> saved =
      Save(std::vector<TrainingSpec>(RankCount(named.plan), spec), named.plan, gone);
  for (Rank rank = 0; rank < RankCount(named.plan); ++rank) {
    if (rank == gone) continue;
    CAPTURE(rank.value(), saved[rank].status.ToString());
    CHECK(absl::IsUnavailable(saved[rank].status));
  }
  CHECK_FALSE(LatestCheckpoint(spec.checkpoint_directory)->latest.has_value());
}

}  // namespace
}  // namespace medley

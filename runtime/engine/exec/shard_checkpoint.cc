#include "runtime/engine/exec/shard_checkpoint.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/segment_file.h"
#include "runtime/engine/exec/gather_segments.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

Part PartOf(StoredPart part) {
  return part == StoredPart::kFirstMoment    ? Part::kFirstMoment
         : part == StoredPart::kSecondMoment ? Part::kSecondMoment
                                             : Part::kParameter;
}

// What the ranks tell each other about their files, as sums over ranks: each number is given by one rank
// alone, and halves of a hash are exact in a double.
constexpr int kNumbersPerSegment = 3;

void Encode(const FileRecord& record, absl::Span<double> numbers) {
  numbers[0] = static_cast<double>(record.digest.bytes);
  numbers[1] = static_cast<double>(record.digest.xxh3 >> 32);
  numbers[2] = static_cast<double>(record.digest.xxh3 & 0xffffffffu);
}

FileRecord Decode(SegmentId segment, absl::Span<const double> numbers) {
  return {.segment = segment,
          .name = SegmentFileName(segment),
          .digest = {.bytes = static_cast<int64_t>(numbers[0]),
                     .xxh3 = static_cast<uint64_t>(numbers[1]) << 32 | static_cast<uint64_t>(numbers[2])}};
}

CheckpointManifest ManifestOf(const TrainingSpec& spec, const RunIdentity& identity, int64_t step) {
  return {.job = spec.job_name,
          .run = identity.owner.run,
          .spec = identity.spec_fingerprint,
          .launch = identity.owner.launch,
          .data_fingerprint = identity.data_fingerprint,
          .step = step,
          .model = spec.shape.model,
          .data = {.steps = step,
                   .order = spec.data_order,
                   .seed = spec.seed,
                   .sequence = spec.shape.sequence,
                   .global_batch_sequences = spec.shape.global_batch_sequences}};
}

absl::Status CheckSameTraining(const CheckpointManifest& manifest, const TrainingSpec& spec) {
  const CheckpointManifest want = ManifestOf(spec, {}, manifest.step);
  const char* field = !(manifest.model == want.model)                ? "model"
                      : manifest.data.sequence != want.data.sequence ? "batch.sequence_length"
                      : manifest.data.global_batch_sequences != want.data.global_batch_sequences
                          ? "batch.sequences"
                      : manifest.data.order != want.data.order ? "data.order"
                      : manifest.data.seed != want.data.seed   ? "seed"
                                                               : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("checkpoint %s was made with another %s than the job's", manifest.directory, field));
}

// One try to write a checkpoint.
class CheckpointTry {
 public:
  CheckpointTry(const TrainingSpec& spec, const RunIdentity& identity, int64_t step, ModelShard& shard,
                StepExecutor& executor, absl::Span<const StepRecord> steps)
      : spec_(spec),
        identity_(identity),
        step_(step),
        shard_(shard),
        executor_(executor),
        steps_(steps),
        directory_(CheckpointDirectory(spec.checkpoint_directory, step)) {}

  absl::StatusOr<SavedCheckpoint> Run() {
    RETURN_IF_ERROR(executor_.CompleteParameters());
    const int count = SegmentCount(spec_.shape.model);
    std::vector<double> numbers(count * kNumbersPerSegment);
    absl::Status failure = CheckFolder();
    SegmentGather gather(executor_.plan(), executor_.rank(), spec_.shape.model, shard_.arena(),
                         executor_.transport(), *executor_.activity());
    for (int round = 0; round < gather.rounds(); ++round) {
      // The others write on, whatever this rank cannot write.
      if (!failure.ok() && gather.IsAlone()) break;
      const std::optional<SegmentId> segment = gather.SegmentOf(round);
      Enter(segment.has_value() ? absl::StrCat("reading segment ", segment->value())
                                : "giving others their parts");
      ASSIGN_OR_RETURN(const std::optional<SegmentValues> values, gather.Gather(round));
      if (!segment.has_value() || !failure.ok()) continue;
      Enter(absl::StrCat("writing segment ", segment->value()));
      failure = Write(*segment, *values,
                      absl::MakeSpan(numbers).subspan(*segment * kNumbersPerSegment, kNumbersPerSegment));
    }
    Enter("waiting until all ranks have written");
    RETURN_IF_ERROR(executor_.SumOverRanks(absl::MakeSpan(numbers)));
    SavedCheckpoint saved{.directory = directory_};
    RETURN_IF_ERROR(FindFailure(failure, saved.written));
    if (!saved.written.ok()) return saved;
    RETURN_IF_ERROR(
        FindFailure(executor_.rank() == 0 ? Commit(numbers, saved.tidied) : absl::OkStatus(), saved.written));
    return saved;
  }

 private:
  void Enter(const std::string& phase) {
    executor_.activity()->Enter(absl::StrCat("checkpoint of step ", step_, ": ", phase));
    Progress::OfProcess().Add();
  }

  absl::Status CheckFolder() {
    const std::string& root = spec_.checkpoint_directory;
    return executor_.rank() == 0 ? KeepRunOwner(root, identity_.owner) : CheckRunOwner(root, identity_.owner);
  }

  absl::Status Write(SegmentId segment, const SegmentValues& values, absl::Span<double> numbers) {
    written_.push_back(segment);
    ASSIGN_OR_RETURN(
        const FileRecord record,
        WriteSegment(directory_, segment,
                     CutSegment(spec_.shape.model, segment, absl::MakeConstSpan(values.parameters),
                                absl::MakeConstSpan(values.m), absl::MakeConstSpan(values.v))));
    Encode(record, numbers);
    return absl::OkStatus();
  }

  absl::Status Commit(const std::vector<double>& numbers, absl::Status& tidied) {
    Enter("committing");
    CheckpointManifest manifest = ManifestOf(spec_, identity_, step_);
    if (spec_.precision == Precision::kF16) manifest.loss_scale = executor_.loss_scale();
    for (SegmentId segment = 0; segment < SegmentCount(spec_.shape.model); ++segment) {
      manifest.files.push_back(Decode(
          segment, absl::MakeConstSpan(numbers).subspan(segment * kNumbersPerSegment, kNumbersPerSegment)));
    }
    const absl::Span<const StepRecord> newest = steps_.last(std::min(steps_.size(), kMostStepRecords));
    manifest.steps.assign(newest.begin(), newest.end());
    RETURN_IF_ERROR(CommitManifest(spec_.checkpoint_directory, manifest));
    Enter("removing old ones");
    tidied = RemoveOldCheckpoints(spec_.checkpoint_directory, spec_.checkpoint_keep, step_, identity_.owner)
                 .status();
    return absl::OkStatus();
  }

  // The ranks tell each other how it went with them, `own`: `first` becomes that of the first one that
  // failed, with its name, or stays OK. If one failed, what was written is removed. Aborted: some rank found
  // that it is superseded; then nothing is.
  absl::Status FindFailure(const absl::Status& own, absl::Status& first) {
    const int ranks = RankCount(executor_.plan());
    std::vector<double> codes(ranks);
    codes[executor_.rank()] = static_cast<double>(own.raw_code());
    RETURN_IF_ERROR(executor_.SumOverRanks(absl::MakeSpan(codes)));
    auto failed = std::find(codes.begin(), codes.end(), static_cast<double>(absl::StatusCode::kAborted));
    const bool superseded = failed != codes.end();
    if (!superseded) failed = std::find_if(codes.begin(), codes.end(), [](double code) { return code != 0; });
    if (failed == codes.end()) return absl::OkStatus();
    const int rank = static_cast<int>(failed - codes.begin());
    if (!superseded) RemoveWritten();
    ASSIGN_OR_RETURN(const std::string text, executor_.TextOf(rank, std::string(own.message())));
    first = absl::Status(static_cast<absl::StatusCode>(static_cast<int>(*failed)),
                         absl::StrCat("rank ", rank, " (", DeviceOf(executor_.plan(), rank), "): ", text));
    if (superseded) return first;
    // All have removed their files.
    if (executor_.rank() == 0) (void)RemoveIncomplete(spec_.checkpoint_directory, step_, identity_.owner);
    return absl::OkStatus();
  }

  // What cannot be removed on a disk that fails stays, and is no checkpoint.
  void RemoveWritten() const {
    for (const SegmentId segment : written_)
      unlink(absl::StrCat(directory_, "/", SegmentFileName(segment)).c_str());
  }

  const TrainingSpec& spec_;
  const RunIdentity& identity_;
  const int64_t step_;
  ModelShard& shard_;
  StepExecutor& executor_;
  const absl::Span<const StepRecord> steps_;
  const std::string directory_;
  std::vector<SegmentId> written_;
};

}  // namespace

absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const TrainingSpec& spec, const RunIdentity& identity,
                                               int64_t step, ModelShard& shard, StepExecutor& executor,
                                               absl::Span<const StepRecord> steps) {
  return CheckpointTry(spec, identity, step, shard, executor, steps).Run();
}

absl::Status LoadCheckpoint(const CheckpointManifest& manifest, const TrainingSpec& spec, ModelShard& shard) {
  RETURN_IF_ERROR(CheckSameTraining(manifest, spec));
  ParameterArena& arena = shard.arena();
  for (const SegmentId segment : arena.layout().segments) {
    CurrentPhase::OfProcess().Enter(
        absl::StrCat("reading segment ", segment.value(), " of ", manifest.directory));
    const absl::Status read =
        StreamSegment(manifest, segment,
                      [&arena](const ParameterSpec& tensor, StoredPart part, absl::Span<const float> values) {
                        return arena.Write(PartOf(part), tensor.name, values);
                      });
    if (!read.ok()) {
      // A file that is missing is damage, too: others of the run's checkpoints may be whole.
      return absl::Status(absl::IsNotFound(read) ? absl::StatusCode::kDataLoss : read.code(),
                          absl::StrCat("checkpoint ", manifest.directory, ": ", read.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadHuggingFace(const std::string& directory, ModelShard& shard) {
  ASSIGN_OR_RETURN(const HuggingFaceModel model, HuggingFaceModel::Open(directory));
  ParameterArena& arena = shard.arena();
  std::vector<float> values;  // of one tensor
  for (const SegmentId segment : arena.layout().segments) {
    CurrentPhase::OfProcess().Enter(absl::StrCat("reading segment ", segment.value(), " from ", directory));
    for (const ParameterSpec& tensor : SegmentParameters(model.config(), segment)) {
      values.resize(static_cast<size_t>(tensor.elements));
      RETURN_IF_ERROR(model.ReadTensor(tensor, absl::MakeSpan(values)));
      RETURN_IF_ERROR(arena.Write(Part::kParameter, tensor.name, values));
    }
  }
  return absl::OkStatus();
}

}  // namespace medley

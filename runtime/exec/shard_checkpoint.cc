#include "runtime/exec/shard_checkpoint.h"

#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/segment_file.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// Host copies of one segment's three arenas.
struct SegmentValues {
  explicit SegmentValues(int64_t elements) : parameters(elements), m(elements), v(elements) {}
  std::vector<float> parameters, m, v;
};

struct PartOf {
  Part part;
  std::vector<float> SegmentValues::* values;
};
constexpr PartOf kParts[] = {{Part::kParameter, &SegmentValues::parameters},
                             {Part::kFirstMoment, &SegmentValues::m},
                             {Part::kSecondMoment, &SegmentValues::v}};

// Calls `visit(tensor name, its part, its place in `values`)` for every tensor of `segment`.
template <typename Visit>
absl::Status ForEachTensor(const ParameterArena& arena, int segment, SegmentValues& values, Visit visit) {
  int64_t first = -1;
  for (const PlacedParameter& placed : arena.layout().parameters) {
    if (placed.segment != segment) continue;
    if (first < 0) first = placed.offset;
    for (const PartOf& part : kParts) {
      absl::Span<float> place = absl::MakeSpan(values.*part.values).subspan(placed.offset - first, placed.spec.elements);
      RETURN_IF_ERROR(visit(part.part, placed.spec.name, place));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FileRecord> SaveSegment(const std::string& directory, int segment, const ModelConfig& config,
                                       ModelShard& shard) {
  SegmentValues values(SegmentElements(config, segment));
  ParameterArena& arena = shard.arena();
  RETURN_IF_ERROR(ForEachTensor(arena, segment, values, [&](Part part, const std::string& name, absl::Span<float> place) {
    return arena.Read(part, name, place);
  }));
  return WriteSegment(directory, segment,
                      CutSegment(config, segment, absl::MakeConstSpan(values.parameters), absl::MakeConstSpan(values.m),
                                 absl::MakeConstSpan(values.v)));
}

// What the units tell each other about their files, as sums over units: each number is given by one unit alone, and
// halves of a hash are exact in a double.
constexpr int kNumbersPerSegment = 3;

void Encode(const FileRecord& record, absl::Span<double> numbers) {
  numbers[0] = static_cast<double>(record.digest.bytes);
  numbers[1] = static_cast<double>(record.digest.xxh3 >> 32);
  numbers[2] = static_cast<double>(record.digest.xxh3 & 0xffffffffu);
}

FileRecord Decode(int segment, absl::Span<const double> numbers) {
  return {.segment = segment,
          .name = SegmentFileName(segment),
          .digest = {.bytes = static_cast<int64_t>(numbers[0]),
                     .xxh3 = static_cast<uint64_t>(numbers[1]) << 32 | static_cast<uint64_t>(numbers[2])}};
}

CheckpointManifest ManifestOf(const TrainingSpec& spec, int64_t step) {
  return {.job = spec.job_name,
          .step = step,
          .model = spec.shape.model,
          .data = {.steps = step, .order = spec.data_order, .seed = spec.seed, .sequence = spec.shape.sequence,
                   .global_batch_sequences = spec.shape.global_batch_sequences}};
}

absl::Status CheckSameTraining(const CheckpointManifest& manifest, const TrainingSpec& spec) {
  const CheckpointManifest want = ManifestOf(spec, manifest.step);
  const char* field = !(manifest.model == want.model)                                            ? "model"
                      : manifest.data.sequence != want.data.sequence                             ? "batch.sequence_length"
                      : manifest.data.global_batch_sequences != want.data.global_batch_sequences ? "batch.sequences"
                      : manifest.data.order != want.data.order                                   ? "data.order"
                      : manifest.data.seed != want.data.seed                                     ? "seed"
                                                                                                 : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("checkpoint %s was made with another %s than the job's", manifest.directory, field));
}

}  // namespace

absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const TrainingSpec& spec, int64_t step, ModelShard& shard,
                                           UnitExecutor& executor, const std::vector<int>& owned_segments) {
  const ModelConfig& config = spec.shape.model;
  const int segments = SegmentCount(config);
  const std::string directory = CheckpointDirectory(spec.checkpoint_directory, step);
  std::vector<double> numbers(segments * kNumbersPerSegment + 1);  // the last one counts failures
  absl::Status failure, tidied;
  for (const int segment : owned_segments) {
    const absl::StatusOr<FileRecord> record = SaveSegment(directory, segment, config, shard);
    if (!record.ok()) {
      failure = record.status();
      numbers.back() = 1;
      break;
    }
    Encode(*record, absl::MakeSpan(numbers).subspan(segment * kNumbersPerSegment, kNumbersPerSegment));
  }
  RETURN_IF_ERROR(executor.SumOverUnits(absl::MakeSpan(numbers)));
  if (executor.unit() == 0 && numbers.back() == 0) {
    CheckpointManifest manifest = ManifestOf(spec, step);
    for (int segment = 0; segment < segments; ++segment) {
      manifest.files.push_back(Decode(
          segment, absl::MakeConstSpan(numbers).subspan(segment * kNumbersPerSegment, kNumbersPerSegment)));
    }
    failure = CommitManifest(spec.checkpoint_directory, manifest);
    if (failure.ok()) tidied = RemoveOldCheckpoints(spec.checkpoint_directory, spec.checkpoint_keep).status();
  }
  double failures = failure.ok() ? 0 : 1;
  RETURN_IF_ERROR(executor.SumOverUnits({&failures, 1}));
  if (!failure.ok()) return failure;
  if (failures > 0) return absl::AbortedError("another unit could not write its part");
  return SavedCheckpoint{directory, tidied};
}

absl::Status LoadCheckpoint(const CheckpointManifest& manifest, const TrainingSpec& spec, ModelShard& shard) {
  RETURN_IF_ERROR(CheckSameTraining(manifest, spec));
  const ModelConfig& config = spec.shape.model;
  ParameterArena& arena = shard.arena();
  for (const int segment : arena.layout().segments) {
    SegmentValues values(SegmentElements(config, segment));
    RETURN_IF_ERROR(ReadSegment(manifest, segment,
                                CutSegment(config, segment, absl::MakeSpan(values.parameters), absl::MakeSpan(values.m),
                                           absl::MakeSpan(values.v))));
    RETURN_IF_ERROR(
        ForEachTensor(arena, segment, values, [&](Part part, const std::string& name, absl::Span<float> place) {
          return arena.Write(part, name, place);
        }));
  }
  return absl::OkStatus();
}

absl::Status LoadHuggingFace(const std::string& directory, ModelShard& shard) {
  ASSIGN_OR_RETURN(const HuggingFaceModel model, HuggingFaceModel::Open(directory));
  ParameterArena& arena = shard.arena();
  for (const int segment : arena.layout().segments) {
    SegmentValues values(SegmentElements(model.config(), segment));
    RETURN_IF_ERROR(model.ReadSegment(segment, absl::MakeSpan(values.parameters)));
    RETURN_IF_ERROR(
        ForEachTensor(arena, segment, values, [&](Part part, const std::string& name, absl::Span<float> place) {
          return part == Part::kParameter ? arena.Write(part, name, place) : absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

}  // namespace medley

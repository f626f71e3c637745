#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/parameters.h"

// One segment's parameters and optimizer state in a file. m and v are AdamW's running means of the gradient
// and of its square, before bias correction.
namespace medley {

// One tensor to save: row-major, each span as many values as `shape` says.
struct SegmentTensor {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<const float> parameter, m, v;
};

// Where one saved tensor goes. An empty span is not wanted and not read.
struct SegmentTensorBuffer {
  std::string name;
  std::vector<int64_t> shape;
  absl::Span<float> parameter, m, v;
};

// The tensors of `segment`, cut from memory where they lie one after another in the order of
// SegmentParameters (as in a ParameterLayout, from the segment's offset). Each span has
// SegmentElements(config, segment) values; those of a buffer may also be empty.
std::vector<SegmentTensor> CutSegment(const ModelConfig& config, SegmentId segment,
                                      absl::Span<const float> parameters, absl::Span<const float> m,
                                      absl::Span<const float> v);
std::vector<SegmentTensorBuffer> CutSegment(const ModelConfig& config, SegmentId segment,
                                            absl::Span<float> parameters, absl::Span<float> m,
                                            absl::Span<float> v);

// Writes <directory>/segment-NNNNN.safetensors (NAME, NAME.m and NAME.v for each tensor, f32), atomically and
// durably, creating `directory` if need be. Blocks until it is on the disk. Any number of processes may write
// different segments of one directory at a time. A manifest that is there is removed first: the checkpoint is
// incomplete until CommitManifest.
//
// Errors: those of AtomicFile (ResourceExhausted: the disk is full), with the path, and nothing of this
// segment is left; InvalidArgument: a span has another size than its shape says.
absl::StatusOr<FileRecord> WriteSegment(const std::string& directory, SegmentId segment,
                                        absl::Span<const SegmentTensor> tensors);

// Reads `tensors` from the file of `segment` of a committed checkpoint, in the one pass that verifies its
// size and checksum.
//
// Errors; the buffers then hold no defined values, and the message names the file:
//   NotFound          the file or a tensor in it is missing.
//   DataLoss          the file's size or checksum is not the manifest's.
//   Unavailable       the disk fails, or its server is away.
//   InvalidArgument   a tensor has another shape; there is no such segment.
absl::Status ReadSegment(const CheckpointManifest& manifest, SegmentId segment,
                         absl::Span<const SegmentTensorBuffer> tensors);

// What a segment's file has of a tensor.
enum class StoredPart : uint8_t { kParameter, kFirstMoment, kSecondMoment };

// Takes one part of one tensor: as many values as it has elements, which last until it returns.
using TakeStored = absl::FunctionRef<absl::Status(const ParameterSpec& tensor, StoredPart part,
                                                  absl::Span<const float> values)>;

// Gives `take` all that the file of `segment` of a committed checkpoint has of its model, in the file's order and on
// the calling thread, with one part of one tensor in memory at a time. What is given is not verified before OK is
// returned. Errors: those of ReadSegment; otherwise the first of `take`, which is not called again after it.
absl::Status StreamSegment(const CheckpointManifest& manifest, SegmentId segment, TakeStored take);

}  // namespace medley

#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/engine/align/captured_call.h"
#include "runtime/engine/align/file_parts.h"

namespace medley {

// Refers to `call`, which must pass CheckCall and outlive the result.
FileParts EncodeCall(const CapturedCall& call);

// What it returns passes CheckCall, whatever `file` holds. Allocates no more than a few times the file's
// size.
// Errors: those of DecodeParts; InvalidArgument if the header does not describe a call, with the field, its
// value and what is allowed.
absl::StatusOr<CapturedCall> DecodeCall(absl::Span<const std::byte> file);

// What one device made of one call.
struct CallResult {
  struct Output {
    std::string name;
    Dtype dtype = Dtype::kF32;
    std::vector<std::byte> contents;
  };
  int64_t index = 0;            // CallPlace::index
  absl::Status status;          // not OK: the device refused the call or failed; no outputs
  std::vector<Output> outputs;  // all that the op writes or updates, in the order of op_slices.h
};

FileParts EncodeResult(const CallResult& result);
absl::StatusOr<CallResult> DecodeResult(absl::Span<const std::byte> file);

}  // namespace medley

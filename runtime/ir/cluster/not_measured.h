#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

// Errors of clusters that lack a measurement, so that who knows how to measure it can tell.
namespace medley {

inline constexpr char kNotMeasuredKey[] = "medley/not-measured";

// FailedPrecondition.
inline absl::Status NotMeasuredError(const std::string& message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kNotMeasuredKey, absl::Cord());
  return status;
}

// Of such an error itself; not of one that tells it with a context of its own (Annotate).
inline bool IsNotMeasured(const absl::Status& status) {
  return status.GetPayload(kNotMeasuredKey).has_value();
}

}  // namespace medley

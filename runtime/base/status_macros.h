#pragma once
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define MEDLEY_CONCAT_INNER(a, b) a##b
#define MEDLEY_CONCAT(a, b) MEDLEY_CONCAT_INNER(a, b)

// Returns `expr`'s status from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expr)                        \
  do {                                               \
    absl::Status medley_status_ = (expr);            \
    if (!medley_status_.ok()) return medley_status_; \
  } while (false)

// Declares or assigns `lhs` from a StatusOr, or returns its error.
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(MEDLEY_CONCAT(medley_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

namespace medley {

// The same code, with `context` before the message: "reading train.bin: no such file".
inline absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace medley

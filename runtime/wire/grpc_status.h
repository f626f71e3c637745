#pragma once
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "runtime/base/valid_utf8.h"

namespace medley {

// The codes of absl::Status and grpc::Status are the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), ValidUtf8(status.error_message()));
}

}  // namespace medley

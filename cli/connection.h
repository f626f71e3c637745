#pragma once
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/coordinator_client.h"
#include "cli/output.h"
#include "cli/views.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/base/status_macros.h"

namespace medley {

// Whom a command asks, and how it answers.
struct Connection {
  std::string address;                    // "host:port" of the coordinator
  std::optional<absl::Duration> timeout;  // as CoordinatorClient has it
  std::optional<v1::TlsConfig> tls;       // none: in the clear
  Output output = Output::kText;
  size_t columns = 0;  // of the terminal; 0: it is none
};

inline CoordinatorClient Connect(const Connection& connection) {
  return {connection.address, connection.timeout, connection.tls};
}

inline void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// For people, beside the answer; nothing where a script reads it.
inline void Note(const Connection& connection, const std::string& text) {
  if (connection.output == Output::kText) std::fprintf(stderr, "medley: %s\n", text.c_str());
}

// Prints a reply in the form that was asked for.
template <typename Message, typename Format>
absl::Status Show(const Connection& connection, const absl::StatusOr<Message>& reply, Format format) {
  RETURN_IF_ERROR(reply.status());
  Print(connection.output == Output::kJson ? JsonLine(*reply) : format(*reply));
  return absl::OkStatus();
}

}  // namespace medley

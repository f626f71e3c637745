#pragma once
#include <string>

#include "absl/status/status.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/waiting_line.h"

namespace medley {

// The answer of `call`, absl::StatusOr<Response>(CallHandle&) or absl::Status(CallHandle&), that takes its
// time: a line says meanwhile what is done (`what`), and is gone when this returns. Cancelled, with
// `interrupted`: the user gave up.
// Interrupts must be blocked (BlockInterrupts) since before the client was made.
template <typename Call>
auto CallPatiently(const std::string& what, const std::string& interrupted, Call call) {
  CallHandle handle;
  WaitingLine line(what);
  const Interrupter interrupter([&] { handle.Cancel(); }, [&] { line.Tick(); });
  auto reply = call(handle);
  if (interrupter.interrupted()) reply = absl::CancelledError(interrupted);
  return reply;
}

}  // namespace medley

#include "cli/trace_steps_command.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/chrome_trace.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/output_file.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/request_id.h"
#include "runtime/wire/json_message.h"

namespace medley {
namespace {

// "traced 3 of 10 steps" on standard error, one line that grows old; nothing where that is no terminal.
class ProgressLine {
 public:
  ~ProgressLine() { Clear(); }
  void Show(int traced, uint32_t steps) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\x1b[Ktraced %d of %u steps", traced, steps);
    std::fflush(stderr);
    shown_ = true;
  }
  void Clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

struct Traced {
  ChromeTraceOfSteps document;
  uint32_t asked_steps = 0, first_step = 0, lost_steps = 0;
};

// The error as it was but for its code and its text.
absl::Status Reworded(const absl::Status& error, absl::StatusCode code, const std::string& text) {
  absl::Status reworded(code, text);
  if (auto request = error.GetPayload(kRequestIdKey)) reworded.SetPayload(kRequestIdKey, *std::move(request));
  return reworded;
}

absl::Status Collect(const Connection& connection, const v1::TraceStepsRequest& request, Traced& traced) {
  BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  CallHandle handle;
  ProgressLine line;
  const Interrupter interrupter([&] { handle.Cancel(); });
  const absl::Status status = client.TraceSteps(request, handle, [&](const v1::TraceStepsUpdate& update) {
    if (update.steps() > 0) {
      traced.asked_steps = update.steps();
      traced.first_step = update.first_step();
      Note(connection, absl::StrCat("tracing steps ", update.first_step(), " to ",
                                    update.first_step() + update.steps() - 1, " of ", request.job_id(),
                                    update.steps() < request.steps() ? ", the job's last ones" : ""));
    }
    traced.lost_steps += update.lost_steps();
    if (update.has_trace()) traced.document.Add(update.trace());
    line.Show(traced.document.steps(), traced.asked_steps);
  });
  line.Clear();
  if (interrupter.interrupted()) return absl::CancelledError("interrupted");
  // The job was, which is no interrupt.
  if (!absl::IsCancelled(status)) return status;
  return Reworded(status, absl::StatusCode::kAborted, std::string(status.message()));
}

}  // namespace

absl::Status RunTraceSteps(const Connection& connection, const std::string& job_id, uint32_t steps,
                           const std::string& file) {
  RETURN_IF_ERROR(CheckOutputFile("--to", file));
  v1::TraceStepsRequest request;
  request.set_job_id(job_id);
  request.set_steps(steps);
  Traced traced;
  const absl::Status status = Collect(connection, request, traced);
  const int count = traced.document.steps();
  // Before anything was traced there is nothing to keep.
  if (traced.asked_steps == 0) return status;
  const std::string so_far = absl::StrCat(count, " of ", Counted(traced.asked_steps, "step"), " traced");
  const auto annotated = [&](const std::string& text) {
    return Reworded(status, status.code(), absl::StrCat(status.message(), "; ", text));
  };
  if (count == 0 && !status.ok()) return annotated(so_far);
  const std::string text = traced.document.Text(traced.lost_steps);
  if (file == "-") {
    Print(text);
  } else {
    RETURN_IF_ERROR(WriteOutputFile(file, text));
  }
  if (!status.ok()) return annotated(file == "-" ? so_far : absl::StrCat(so_far, ", into ", file));
  if (traced.lost_steps > 0)
    Note(connection, absl::StrCat(Counted(traced.lost_steps, "step"), traced.lost_steps == 1 ? " is" : " are",
                                  " missing: the times came faster than they could be read"));
  if (file == "-") return absl::OkStatus();
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"job_id\": ", JsonString(job_id), ", \"first_step\": ", traced.first_step,
                           ", \"steps\": ", count, ", \"lost_steps\": ", traced.lost_steps,
                           ", \"file\": ", JsonString(file), "}\n")
            : absl::StrCat(Counted(count, "step"), " of ", job_id, ", from step ", traced.first_step,
                           " on, in ", file, "; open it in https://ui.perfetto.dev\n"));
  return absl::OkStatus();
}

}  // namespace medley

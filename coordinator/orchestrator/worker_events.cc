#include "coordinator/orchestrator/worker_events.h"

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_time.h"
#include "runtime/base/clock.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/valid_utf8.h"

namespace medley {
namespace {

// Of a CheckpointWritten or a CheckpointFailed.
template <typename Event>
void CountCheckpointTime(v1::Job& job, const Event& event) {
  job.set_checkpoint_seconds_total(job.checkpoint_seconds_total() +
                                   TakeTime(job, event.seconds(), event.at_seconds()));
}

}  // namespace

void NoteWorkerEvent(JobJournal& journal, const std::string& job_id, const EventSource& source,
                     absl::Time granted, const v1::WorkerEvent& event) {
  bool is_first_step = false;
  switch (event.event_case()) {
    case v1::WorkerEvent::kStep: {
      v1::StepMetrics step = event.step();
      step.set_attempt(source.attempt);
      step.set_emulated(source.emulated);
      if (step.at_seconds() == 0) step.set_at_seconds(UnixSecondsNow());
      journal.AddStep(job_id, step);
      (void)journal.Look(job_id, [&](const v1::Job& job) { is_first_step = job.launch_seconds() == 0; });
      break;
    }
    case v1::WorkerEvent::kValidation:
      journal.AddValidation(job_id, event.validation());
      break;
    case v1::WorkerEvent::kCheckpoint:
      (void)journal.Change(job_id, [&](v1::Job& job) {
        job.set_checkpoint_path(event.checkpoint().path());
        job.set_checkpoint_step(event.checkpoint().step());
        job.clear_checkpoint_problem();
        job.set_restarts_without_progress(0);
        CountCheckpointTime(job, event.checkpoint());
      });
      journal.Log(
          job_id, source.device,
          absl::StrCat("checkpoint of step ", event.checkpoint().step(), " at ", event.checkpoint().path()));
      break;
    case v1::WorkerEvent::kCheckpointFailed:
      (void)journal.Change(job_id, [&](v1::Job& job) {
        job.set_checkpoint_problem(ValidUtf8(absl::StrCat("step ", event.checkpoint_failed().step(), ": ",
                                                          event.checkpoint_failed().reason())));
        CountCheckpointTime(job, event.checkpoint_failed());
      });
      journal.Log(job_id, source.device,
                  absl::StrCat("no checkpoint of step ", event.checkpoint_failed().step(), ": ",
                               event.checkpoint_failed().reason(), "; training goes on"));
      break;
    case v1::WorkerEvent::kLog:
      journal.Log(job_id, source.device, event.log());
      break;
    default:
      break;
  }
  if (is_first_step) {
    const double seconds = absl::ToDoubleSeconds(Now() - granted);
    (void)journal.Change(job_id, [&](v1::Job& job) { job.set_launch_seconds(seconds); });
  }
  if (event.number() > 0) journal.Seen(job_id, source.task, event.number());
}

}  // namespace medley

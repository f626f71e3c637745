#pragma once
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "coordinator/orchestrator/job_journal.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// Of which worker an event is.
struct EventSource {
  std::string device;
  int task = 0;  // of the attempt, by rank
  uint32_t attempt = 0;
  bool emulated = false;  // the attempt is
};

// What a worker says of a job's steps, validations and checkpoints, and its log, into the journal. `granted`: when the run got its devices.
void NoteWorkerEvent(JobJournal& journal, const std::string& job_id, const EventSource& source,
                     absl::Time granted, const v1::WorkerEvent& event);

}  // namespace medley

#pragma once
#include <set>
#include <string>

#include "coordinator/orchestrator/job_journal.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What a launch begins from.
struct Beginning {
  std::string checkpoint;  // directory; empty: from the start
  bool other_run = false;  // the checkpoint is not this run's own
};

// The newest complete checkpoint of the run that is not among `unreadable`. Sizes alone are looked at:
// workers read every byte, and say so when it is not what the manifest says. Workers may have come further
// than the journal knows when the coordinator or their agent was away: the journal gets the steps that checkpoints
// tell of, and the work counts more than the metrics of those that none does, which are then missing. Where the directory is not seen from here, the journal's word stands. Says
// in the job's log what is passed over and what is missing. Unavailable: of a job that was launched before it is not known
// at present which there are, as the disk fails or its server is away. FailedPrecondition: there were checkpoints, and none is
// left that can be read; what was trained is not thrown away unasked.
absl::StatusOr<Beginning> BeginningOf(const TrainingSpec& training, const v1::Job& job,
                                      const std::set<std::string>& unreadable, JobJournal& journal);

// 16 hexadecimal digits that stand for the spec.
std::string FingerprintOf(const v1::JobSpec& spec);

}  // namespace medley

#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/cluster.pb.h"

// How far predicted steps were off in attempts that have ended: what error bars of later plans are learnt from.
namespace medley {

// Of fewer the median may be that of a disturbance.
inline constexpr size_t kFewestMeasuredSteps = 8;

// Puts what was predicted and measured of the job's newest attempt, which has ended, into the store, in the place of what is there of
// it. Nothing of attempts with emulated devices, or of which fewer steps were measured. That the store does not take it is
// said in the job's log.
void NotePredictionOutcome(Store& store, JobJournal& journal, const std::string& job_id);

// Of each such attempt, by launch. Those that cannot be read are logged and left out.
std::vector<v1::LiveError> PredictionErrors(Store& store);

}  // namespace medley

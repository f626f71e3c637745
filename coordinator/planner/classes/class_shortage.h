#pragma once
#include <atomic>
#include <string>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// Why PlanByClasses found no plan that fits, for people, in one message of up to three parts: how much the routes lack that come
// nearest (class_fit.h), and on which devices; what the stage that lacks most needs in each way that it may use, of how much memory;
// and which single changes of the problem there would be room with, each of which has been tried by the same count of memory: of the
// job's constraints, batch and precision, of what is known of hosts, of the number of devices and of their memory. Where several of
// these are needed at once, it says nothing of them but for the memory. That there is room does not say that a plan is found.
//
// Limits to devices and their price (PlanConstraints::limit_devices) are kept. Takes about as long as FitsByClasses for each change.
// `problem` must be valid (CheckProblem). `stop`, looked at often if it is not null: once it is true, less is said. Pure.
std::string WhyNoneByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop = nullptr);

// The last of these parts alone, to be put behind another reason why nothing fits: "; there would be room with ...". Empty: no such
// change is known, or stages would have room as it is.
std::string RemediesByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop = nullptr);

}  // namespace medley

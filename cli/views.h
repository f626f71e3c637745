#pragma once
#include <cstddef>
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

// Replies of the coordinator as text for people; each ends with a line break, or is empty. `columns`: of the
// terminal, so that nothing wraps; 0: lines may be as long as they are.
namespace medley {

std::string FormatJobs(const v1::ListJobsResponse& jobs, size_t columns = 0);
// `peak_flops_per_second`: of its devices (runtime/wire/model_flops.h); 0: not known.
std::string FormatJob(const v1::Job& job, size_t columns = 0, double peak_flops_per_second = 0);
std::string FormatNodes(const v1::ListNodesResponse& nodes, size_t columns = 0);
std::string FormatSteps(const v1::ListStepsResponse& steps, size_t columns = 0);
// A line of FormatSteps' for each of `steps` that have come since, without the heading; the same columns if
// no figure is unusually long.
std::string FormatMoreSteps(const v1::ListStepsResponse& steps);
std::string FormatLogs(const v1::ListLogsResponse& logs);
std::string FormatAudit(const v1::ListAuditResponse& audit, size_t columns = 0);
// What was decided, and why.
std::string FormatReplan(const v1::ReplanJobResponse& reply, size_t columns = 0);

enum class PlanDetail {
  kSummary,      // the plan, its predicted speed, and what each device does
  kExplanation,  // also why no other plan was taken
};
std::string FormatPlan(const v1::PlanReport& report, PlanDetail detail, size_t columns = 0);

// How good a plan is known to be: "proven optimal", "at most 3.1 % slower than the best possible".
std::string QualityOf(const v1::PlanReport& report);

// How far the predicted step may be off: "within 4 % two times of three, 9 % nine of ten (learnt from 12 runs here)"; empty: it is
// not known.
std::string ErrorOf(const v1::PlanReport& report);

// How its messages between hosts are protected; empty: they are not.
std::string ProtectionOf(const v1::PlanReport& report);

// "7.20 an hour, 0.0375 a million tokens, 1.00 for the job's 1000 steps (8 min 20 s)"; empty: no device in use has a price.
std::string PriceOf(const v1::PlanReport& report);

// `message` as JSON (runtime/wire/json_message.h) and a line break.
std::string JsonLine(const google::protobuf::Message& message);

}  // namespace medley

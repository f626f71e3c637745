#pragma once
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

// Replies of the coordinator as text for people; each ends with a line break, or is empty.
namespace medley {

std::string FormatJobs(const v1::ListJobsResponse& jobs);
std::string FormatJob(const v1::Job& job);
std::string FormatNodes(const v1::ListNodesResponse& nodes);
std::string FormatSteps(const v1::ListStepsResponse& steps);
std::string FormatLogs(const v1::ListLogsResponse& logs);

enum class PlanDetail {
  kSummary,      // the plan, its predicted speed, and what each device does
  kExplanation,  // also why no other plan was taken
};
std::string FormatPlan(const v1::PlanReport& report, PlanDetail detail);

// One line of JSON with the protos' own names, all numbers and texts written even if they are empty.
// {"error": ...} if a text is no UTF-8.
std::string JsonLine(const google::protobuf::Message& message);

}  // namespace medley

#include "cli/chrome_trace.h"

#include <cmath>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace medley {
namespace {

using nlohmann::json;

constexpr const char* kStreams[] = {
    "compute",       "receive activation", "send activation", "receive gradient",
    "send gradient", "collective",         "fetch",           "store"};

std::string StreamName(uint32_t stream) {
  return stream < std::size(kStreams) ? kStreams[stream] : absl::StrCat("stream ", stream);
}

// Predicted and measured lanes of a stream stand next to each other.
enum class Lane { kPredicted, kMeasured };
uint32_t ThreadOf(uint32_t stream, Lane lane) { return stream * 2 + (lane == Lane::kMeasured ? 1 : 0); }

json Named(const char* what, int process, uint32_t thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json Slice(const v1::TraceInstruction& instruction, int process, Lane lane, double start_seconds,
           double end_seconds) {
  json arguments = json::object();
  std::string name = instruction.kind();
  if (instruction.micro_batch() >= 0) {
    absl::StrAppend(&name, " ", instruction.micro_batch());
    arguments["micro_batch"] = instruction.micro_batch();
  }
  if (instruction.parts() > 0) {
    absl::StrAppend(&name, " in ", instruction.parts(), " parts");
    arguments["parts"] = instruction.parts();
  }
  if (instruction.has_blocks())
    arguments["blocks"] =
        absl::StrCat("[", instruction.blocks().first(), ", ", instruction.blocks().end(), ")");
  if (instruction.bytes() > 0) arguments["bytes"] = instruction.bytes();
  return {{"ph", "X"},
          {"name", name},
          {"cat", lane == Lane::kPredicted ? "predicted" : "measured"},
          {"pid", process},
          {"tid", ThreadOf(instruction.stream(), lane)},
          {"ts", start_seconds * 1e6},
          {"dur", std::max(0.0, end_seconds - start_seconds) * 1e6},
          {"args", arguments}};
}

// `names`: the names of lanes are added, too; `offset_seconds` is added to all times.
void AppendLane(const v1::TraceLane& lane, int process, bool names, double offset_seconds, json& events) {
  if (names) events.push_back(Named("process_name", process, 0, lane.device()));
  std::set<uint32_t> named;
  for (const v1::TraceInstruction& instruction : lane.instructions()) {
    const uint32_t stream = instruction.stream();
    if (names && named.insert(stream).second) {
      for (const Lane side : {Lane::kPredicted, Lane::kMeasured}) {
        const std::string word = side == Lane::kPredicted ? ", predicted" : ", measured";
        events.push_back(Named("thread_name", process, ThreadOf(stream, side), StreamName(stream) + word));
        json order = Named("thread_sort_index", process, ThreadOf(stream, side), "");
        order["args"] = {{"sort_index", ThreadOf(stream, side)}};
        events.push_back(std::move(order));
      }
    }
    if (instruction.predicted_end_seconds() > 0) {
      events.push_back(Slice(instruction, process, Lane::kPredicted,
                             offset_seconds + instruction.predicted_start_seconds(),
                             offset_seconds + instruction.predicted_end_seconds()));
    }
    if (instruction.measured_end_seconds() > 0) {
      events.push_back(Slice(instruction, process, Lane::kMeasured,
                             offset_seconds + instruction.measured_start_seconds(),
                             offset_seconds + instruction.measured_end_seconds()));
    }
  }
}

// A name that is no UTF-8 must not end the program.
std::string Written(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string ChromeTrace(const v1::Trace& trace) {
  json events = json::array();
  for (int i = 0; i < trace.lanes_size(); ++i) AppendLane(trace.lanes(i), i + 1, true, 0, events);
  const json document = {{"traceEvents", std::move(events)},
                         {"displayTimeUnit", "ms"},
                         {"otherData", {{"job", trace.job_id()}, {"step", trace.step()}}}};
  return Written(document, 1);
}

void ChromeTraceOfSteps::Add(const v1::Trace& trace) {
  json events = json::array();
  if (steps_ == 0) {
    job_id_ = trace.job_id();
    first_step_ = trace.step();
    first_started_at_seconds_ = trace.started_at_seconds();
    events.push_back(Named("process_name", 0, 0, "steps"));
  }
  if (steps_ == 0 || trace.step() != step_) {
    if (steps_++ > 0) absl::StrAppend(&events_, StepSlice(), ",\n");
    step_ = trace.step();
    step_start_seconds_ = trace.started_at_seconds() - first_started_at_seconds_;
    step_seconds_ = 0;
    lanes_ = 0;
  }
  for (const v1::TraceLane& lane : trace.lanes()) {
    AppendLane(lane, ++lanes_, /*names=*/steps_ == 1, step_start_seconds_, events);
    for (const v1::TraceInstruction& instruction : lane.instructions())
      step_seconds_ = std::max(step_seconds_, instruction.measured_end_seconds());
  }
  for (const json& event : events) absl::StrAppend(&events_, Written(event, -1), ",\n");
}

std::string ChromeTraceOfSteps::StepSlice() const {
  return Written({{"ph", "X"},
                  {"name", absl::StrCat("step ", step_)},
                  {"cat", "step"},
                  {"pid", 0},
                  {"tid", 0},
                  {"ts", step_start_seconds_ * 1e6},
                  {"dur", step_seconds_ * 1e6},
                  {"args", {{"step", step_}}}},
                 -1);
}

std::string ChromeTraceOfSteps::Text(uint32_t lost_steps) const {
  const json about = {{"job", job_id_},
                      {"first_step", first_step_},
                      {"last_step", step_},
                      {"steps", steps_},
                      {"lost_steps", lost_steps}};
  return absl::StrCat("{\"traceEvents\":[\n", events_, steps_ > 0 ? StepSlice() : "",
                      "\n],\"displayTimeUnit\":\"ms\",\"otherData\":", Written(about, -1), "}\n");
}

}  // namespace medley

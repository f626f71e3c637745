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
  return {{"ph", "X"},
          {"name", name},
          {"cat", lane == Lane::kPredicted ? "predicted" : "measured"},
          {"pid", process},
          {"tid", ThreadOf(instruction.stream(), lane)},
          {"ts", start_seconds * 1e6},
          {"dur", std::max(0.0, end_seconds - start_seconds) * 1e6},
          {"args", arguments}};
}

void AppendLane(const v1::TraceLane& lane, int process, json& events) {
  events.push_back(Named("process_name", process, 0, lane.device()));
  std::set<uint32_t> named;
  for (const v1::TraceInstruction& instruction : lane.instructions()) {
    const uint32_t stream = instruction.stream();
    if (named.insert(stream).second) {
      for (const Lane side : {Lane::kPredicted, Lane::kMeasured}) {
        const std::string word = side == Lane::kPredicted ? ", predicted" : ", measured";
        events.push_back(Named("thread_name", process, ThreadOf(stream, side), StreamName(stream) + word));
        json order = Named("thread_sort_index", process, ThreadOf(stream, side), "");
        order["args"] = {{"sort_index", ThreadOf(stream, side)}};
        events.push_back(std::move(order));
      }
    }
    events.push_back(Slice(instruction, process, Lane::kPredicted, instruction.predicted_start_seconds(),
                           instruction.predicted_end_seconds()));
    if (instruction.measured_end_seconds() > 0) {
      events.push_back(Slice(instruction, process, Lane::kMeasured, instruction.measured_start_seconds(),
                             instruction.measured_end_seconds()));
    }
  }
}

}  // namespace

std::string ChromeTrace(const v1::Trace& trace) {
  json events = json::array();
  for (int i = 0; i < trace.lanes_size(); ++i) AppendLane(trace.lanes(i), i + 1, events);
  const json document = {{"traceEvents", std::move(events)},
                         {"displayTimeUnit", "ms"},
                         {"otherData", {{"job", trace.job_id()}, {"step", trace.step()}}}};
  // A name that is no UTF-8 must not end the program.
  return document.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace medley

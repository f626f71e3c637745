#include "cli/chrome_trace.h"

#include <catch2/catch.hpp>
#include <map>

#include "nlohmann/json.hpp"

namespace medley {
namespace {

v1::TraceInstruction& Add(v1::TraceLane& lane, const std::string& kind, uint32_t stream, int micro_batch) {
  v1::TraceInstruction& instruction = *lane.add_instructions();
  instruction.set_kind(kind);
  instruction.set_stream(stream);
  instruction.set_micro_batch(micro_batch);
  return instruction;
}

v1::Trace TwoDevices() {
  v1::Trace trace;
  trace.set_job_id("job-1");
  trace.set_step(7);
  for (const char* device : {"a/cpu0", "b/cpu0"}) {
    v1::TraceLane& lane = *trace.add_lanes();
    lane.set_device(device);
    v1::TraceInstruction& forward = Add(lane, "forward", 0, 3);
    forward.set_predicted_start_seconds(0.001);
    forward.set_predicted_end_seconds(0.003);
    forward.set_measured_start_seconds(0.002);
    forward.set_measured_end_seconds(0.005);
    Add(lane, "update parameters", 0, -1).set_predicted_end_seconds(0.004);  // not measured
    v1::TraceInstruction& send = Add(lane, "send activation", 2, 3);
    send.set_predicted_end_seconds(0.001);
    send.set_measured_end_seconds(0.001);
  }
  return trace;
}

TEST_CASE("a device is a process with a predicted and a measured lane for each of its streams") {
  const nlohmann::json trace = nlohmann::json::parse(ChromeTrace(TwoDevices()));
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> lanes;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") lanes[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  CHECK(processes == std::map<int, std::string>{{1, "a/cpu0"}, {2, "b/cpu0"}});
  CHECK(lanes.size() == 8);
  CHECK(lanes[{1, 0}] == "compute, predicted");
  CHECK(lanes[{1, 1}] == "compute, measured");
  CHECK(lanes[{2, 4}] == "send activation, predicted");
  CHECK(lanes[{2, 5}] == "send activation, measured");
  CHECK(trace["otherData"]["step"] == 7);
}

TEST_CASE("an instruction has the same name in both lanes, and its own times in microseconds") {
  const nlohmann::json trace = nlohmann::json::parse(ChromeTrace(TwoDevices()));
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> slices;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != 1) continue;
    slices[{event["name"], event["cat"]}] = {event["ts"], event["dur"]};
  }
  CHECK(slices.size() == 5);  // one of the three was not measured
  CHECK(slices[{"forward 3", "predicted"}].first == Approx(1000));
  CHECK(slices[{"forward 3", "predicted"}].second == Approx(2000));
  CHECK(slices[{"forward 3", "measured"}].first == Approx(2000));
  CHECK(slices[{"forward 3", "measured"}].second == Approx(3000));
  CHECK(slices.count({"update parameters", "predicted"}) == 1);
  CHECK(slices.count({"update parameters", "measured"}) == 0);
}

TEST_CASE("a pass of a micro-batch in parts says in how many") {
  v1::Trace trace = TwoDevices();
  trace.mutable_lanes(0)->mutable_instructions(0)->set_parts(2);
  const nlohmann::json events = nlohmann::json::parse(ChromeTrace(trace))["traceEvents"];
  int in_parts = 0;
  for (const auto& event : events) {
    if (!event["args"].contains("parts")) continue;
    ++in_parts;
    CHECK(event["name"] == "forward 3 in 2 parts");
    CHECK(event["args"]["parts"] == 2);
  }
  CHECK(in_parts == 2);  // predicted and measured, of one device
}

TEST_CASE("an instruction says which blocks it is of, and how many bytes it moves") {
  v1::Trace trace = TwoDevices();
  v1::TraceInstruction& forward = *trace.mutable_lanes(0)->mutable_instructions(0);
  forward.mutable_blocks()->set_first(2);
  forward.mutable_blocks()->set_end(5);
  trace.mutable_lanes(0)->mutable_instructions(2)->set_bytes(4096);
  int of_blocks = 0, of_bytes = 0;
  const nlohmann::json events = nlohmann::json::parse(ChromeTrace(trace))["traceEvents"];
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    if (event["args"].contains("blocks")) {
      ++of_blocks;
      CHECK(event["name"] == "forward 3");
      CHECK(event["args"]["blocks"] == "[2, 5)");
    }
    if (event["args"].contains("bytes")) {
      ++of_bytes;
      CHECK(event["name"] == "send activation 3");
      CHECK(event["args"]["bytes"] == 4096);
    }
  }
  CHECK(of_blocks == 2);  // predicted and measured
  CHECK(of_bytes == 2);
}

TEST_CASE("several steps stand behind one another on one clock, their lanes named once") {
  ChromeTraceOfSteps steps;
  v1::Trace trace = TwoDevices();
  trace.set_started_at_seconds(1'700'000'000.5);
  steps.Add(trace);
  trace.set_step(9);
  trace.set_started_at_seconds(1'700'000'000.75);
  for (v1::TraceLane& lane : *trace.mutable_lanes()) {
    for (v1::TraceInstruction& instruction : *lane.mutable_instructions())
      instruction.clear_predicted_end_seconds();  // it is not known
  }
  v1::Trace rest = trace;  // comes in parts
  trace.mutable_lanes()->DeleteSubrange(1, 1);
  rest.mutable_lanes()->DeleteSubrange(0, 1);
  steps.Add(trace);
  steps.Add(rest);
  CHECK(steps.steps() == 2);
  const nlohmann::json document = nlohmann::json::parse(steps.Text(/*lost_steps=*/1));
  CHECK(document["otherData"] ==
        nlohmann::json(
            {{"job", "job-1"}, {"first_step", 7}, {"last_step", 9}, {"steps", 2}, {"lost_steps", 1}}));
  std::multimap<std::string, double> begins;
  std::map<int, int> processes;
  int predicted = 0;
  for (const auto& event : document["traceEvents"]) {
    if (event["name"] == "process_name") ++processes[event["pid"]];
    if (event["ph"] != "X") continue;
    if (event["cat"] == "predicted") ++predicted;
    if (event["pid"] != 2 && event["cat"] != "predicted") begins.emplace(event["name"], event["ts"]);
  }
  CHECK(processes == std::map<int, int>{{0, 1}, {1, 1}, {2, 1}});
  CHECK(predicted == 6);  // of the first step alone
  CHECK(begins.find("step 7")->second == 0);
  CHECK(begins.find("step 9")->second == Approx(250'000));
  CHECK(begins.count("forward 3") == 2);
  CHECK(begins.lower_bound("forward 3")->second == Approx(2000));
  CHECK(std::prev(begins.upper_bound("forward 3"))->second == Approx(252'000));
}

TEST_CASE("names that are no UTF-8 do not break the trace") {
  v1::Trace trace;
  trace.add_lanes()->set_device("a\xff");
  CHECK_FALSE(nlohmann::json::parse(ChromeTrace(trace), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace medley

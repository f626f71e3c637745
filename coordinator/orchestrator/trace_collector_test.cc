#include "coordinator/orchestrator/trace_collector.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

const TrainingShape kShape = {
    .model = {.layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 16, .context = 8},
    .sequence = 8,
    .global_batch_sequences = 4};

PlannedJob Planned() {
  PlannedJob planned;
  planned.plan = {
      .units = {{.devices = {"a/cpu0"}, .chunks = {{0, 2}}}, {.devices = {"b/cpu0"}, .chunks = {{2, 4}}}},
      .routes = {{.units = {0, 1}, .micro_batches = 2, .micro_batch_sequences = 2}}};
  for (int unit = 0; unit < 2; ++unit) {
    RankPrediction& prediction = planned.prediction.ranks.emplace_back();
    const size_t count = CompileStep(planned.plan, unit, kShape, Purpose::kTrain).instructions.size();
    for (size_t i = 0; i < count; ++i) {
      prediction.timeline.push_back({.start_seconds = 10.0 * unit + i, .end_seconds = 10.0 * unit + i + 0.5});
    }
  }
  return planned;
}

v1::MeasuredStep Measured(const Plan& plan, Rank rank, uint32_t step, double started_at) {
  v1::MeasuredStep measured;
  measured.set_step(step);
  measured.set_started_at_seconds(started_at);
  const size_t count = CompileStep(plan, rank, kShape, Purpose::kTrain).instructions.size();
  for (size_t i = 0; i < count; ++i) {
    measured.add_start_seconds(i);
    measured.add_end_seconds(i + 0.25);
  }
  return measured;
}

TEST_CASE(
    "a trace comes with the last unit, every instruction's prediction beside its measurement on one clock") {
  const PlannedJob planned = Planned();
  TraceCollector traces("job-1", planned, kShape);
  CHECK_FALSE(traces.Add(1, Measured(planned.plan, 1, 4, 100.5)));
  const std::optional<v1::Trace> trace = traces.Add(0, Measured(planned.plan, 0, 4, 100.0));
  REQUIRE(trace);
  CHECK(trace->job_id() == "job-1");
  CHECK(trace->step() == 4);
  REQUIRE(trace->lanes_size() == 2);
  CHECK(trace->lanes(0).device() == "a/cpu0");
  CHECK(trace->lanes(1).device() == "b/cpu0");
  for (int unit = 0; unit < 2; ++unit) {
    const StepProgram program = CompileStep(planned.plan, unit, kShape, Purpose::kTrain);
    REQUIRE(trace->lanes(unit).instructions_size() == static_cast<int>(program.instructions.size()));
    const double offset = unit == 0 ? 0.0 : 0.5;  // unit 1 began half a second later
    for (int i = 0; i < trace->lanes(unit).instructions_size(); ++i) {
      const v1::TraceInstruction& instruction = trace->lanes(unit).instructions(i);
      CHECK(instruction.kind() == NameOf(program.instructions[i].kind));
      CHECK(instruction.micro_batch() == program.instructions[i].micro_batch);
      CHECK(instruction.predicted_start_seconds() == 10.0 * unit + i);
      CHECK(instruction.measured_start_seconds() == Approx(offset + i));
      CHECK(instruction.measured_end_seconds() == Approx(offset + i + 0.25));
    }
  }
}

TEST_CASE("passes of micro-batches in parts say so, and nothing else does") {
  Plan plan = Planned().plan;
  plan.units[0].devices = {"a/cpu0", "c/cpu0"};
  plan.units[0].exchange_parts = 2;
  TraceCollector traces("job-1", plan, kShape);
  std::optional<v1::Trace> trace;
  for (Rank rank = 0; rank < 3; ++rank) trace = traces.Add(rank, Measured(plan, rank, 4, 1));
  REQUIRE(trace);
  REQUIRE(trace->lanes_size() == 3);
  std::map<std::string, std::set<uint32_t>> parts;
  for (const v1::TraceInstruction& instruction : trace->lanes(1).instructions())
    parts[instruction.kind()].insert(instruction.parts());
  CHECK(parts["forward"] == std::set<uint32_t>{2});
  CHECK(parts["backward"] == std::set<uint32_t>{2});
  CHECK(parts["send activation"] == std::set<uint32_t>{0});
  for (const v1::TraceInstruction& instruction : trace->lanes(2).instructions())
    CHECK(instruction.parts() == 0);
}

// By kind, how many bytes each instruction of a rank moves, and of which blocks it is.
std::map<std::string, std::set<std::pair<std::string, bool>>> TracedOf(const Plan& plan) {
  TraceCollector traces("job-1", plan, kShape);
  std::optional<v1::Trace> trace;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) trace = traces.Add(rank, Measured(plan, rank, 4, 1));
  REQUIRE(trace);
  std::map<std::string, std::set<std::pair<std::string, bool>>> traced;
  for (const v1::TraceInstruction& instruction : trace->lanes(0).instructions()) {
    const v1::BlockRange& blocks = instruction.blocks();
    traced[instruction.kind()].insert(
        {instruction.has_blocks() ? absl::StrCat(blocks.first(), "-", blocks.end()) : "",
         instruction.bytes() > 0});
  }
  return traced;
}

TEST_CASE(
    "what is fetched, stored, recomputed, scattered and gathered says of which layer, and how much it is") {
  Plan plan;
  plan.schedule = Schedule::kGPipe;
  plan.units = {
      {.devices = {"a/cpu0"}, .chunks = {{0, 4}}, .recompute = Recompute::kLayers, .window_layers = 1}};
  plan.routes = {{.units = {0}, .micro_batches = 2, .micro_batch_sequences = 2}};
  auto traced = TracedOf(plan);
  for (const std::string& what :
       {"fetch parameters of layer 0", "fetch parameters of layer 1", "store gradients of layer 1"}) {
    CAPTURE(what);
    REQUIRE(traced.contains(what));
    for (const auto& [blocks, moves] : traced[what]) CHECK(moves);
  }
  CHECK(traced["recompute"] == std::set<std::pair<std::string, bool>>{{"1-2", false}, {"2-3", false}});

  plan.units[0].recompute = Recompute::kNone;
  plan.units[0].layers_home = LayersHome::kPeers;
  plan.units.push_back(plan.units[0]);
  plan.units[1].devices = {"b/cpu0"};
  plan.shards_optimizer = true;
  plan.routes = {{.units = {0}, .micro_batches = 1, .micro_batch_sequences = 2},
                 {.units = {1}, .micro_batches = 1, .micro_batch_sequences = 2}};
  traced = TracedOf(plan);
  for (const std::string& what : {"gather parameters of layer 1", "scatter gradients of layer 0",
                                  "gather parameters", "scatter gradients"}) {
    CAPTURE(what);
    REQUIRE(traced.contains(what));
    for (const auto& [blocks, moves] : traced[what]) CHECK(moves);
  }
}

TEST_CASE("without predictions a trace has what was measured, and when the step began") {
  const PlannedJob planned = Planned();
  TraceCollector traces("job-1", planned.plan, kShape);
  CHECK_FALSE(traces.Add(1, Measured(planned.plan, 1, 4, 100.5)));
  const std::optional<v1::Trace> trace = traces.Add(0, Measured(planned.plan, 0, 4, 100.0));
  REQUIRE(trace);
  CHECK(trace->started_at_seconds() == 100.0);
  CHECK(trace->lanes(1).instructions(0).predicted_end_seconds() == 0);
  CHECK(trace->lanes(1).instructions(0).measured_end_seconds() == Approx(0.75));
}

TEST_CASE("a lane has what its unit sent and received; a peer that the plan does not have is dropped") {
  const PlannedJob planned = Planned();
  TraceCollector traces("job-1", planned, kShape);
  v1::MeasuredStep measured = Measured(planned.plan, 0, 4, 1);
  v1::PeerTraffic& traffic = *measured.add_traffic();
  traffic.set_peer(1);
  traffic.set_operation("activation");
  traffic.set_bytes_sent(4096);
  *measured.add_traffic() = traffic;
  measured.mutable_traffic(1)->set_peer(2);
  CHECK_FALSE(traces.Add(0, measured));
  const std::optional<v1::Trace> trace = traces.Add(1, Measured(planned.plan, 1, 4, 1));
  REQUIRE(trace);
  REQUIRE(trace->lanes(0).traffic_size() == 1);
  CHECK(trace->lanes(0).traffic(0).SerializeAsString() == traffic.SerializeAsString());
  CHECK(trace->lanes(1).traffic_size() == 0);
}

TEST_CASE("times that do not fit the program are dropped, and older unfinished steps are forgotten") {
  const PlannedJob planned = Planned();
  TraceCollector traces("job-1", planned, kShape);
  v1::MeasuredStep short_one = Measured(planned.plan, 0, 4, 1);
  short_one.mutable_end_seconds()->RemoveLast();
  CHECK_FALSE(traces.Add(0, short_one));
  CHECK_FALSE(traces.Add(1, Measured(planned.plan, 1, 4, 1)));
  CHECK_FALSE(traces.Add(1, Measured(planned.plan, 1, 25, 2)));
  CHECK(traces.Add(0, Measured(planned.plan, 0, 25, 2)));
  CHECK_FALSE(traces.Add(0, Measured(planned.plan, 0, 4, 1)));  // unit 1's times of step 4 are gone
}

}  // namespace
}  // namespace medley

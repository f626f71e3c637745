#include "coordinator/orchestrator/trace_collector.h"

#include <algorithm>

#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// Into which the ranks of a unit cut the micro-batch of an instruction; 0: they do not.
uint32_t PartsOfPass(const Unit& unit, InstructionKind kind) {
  const bool exchanges = IsPass(kind) && kind != InstructionKind::kWeightGradient;
  return exchanges && unit.exchange_parts > 1 ? static_cast<uint32_t>(unit.exchange_parts) : 0;
}

}  // namespace

TraceCollector::TraceCollector(std::string job_id, const PlannedJob& planned, const TrainingShape& shape)
    : TraceCollector(std::move(job_id), planned.plan, shape) {
  predictions_ = planned.prediction.ranks;
}

TraceCollector::TraceCollector(std::string job_id, const Plan& plan, const TrainingShape& shape)
    : job_id_(std::move(job_id)), plan_(plan), shape_(shape) {}

std::optional<v1::Trace> TraceCollector::Add(int unit, const v1::MeasuredStep& measured) {
  // Not before: a launch of a thousand ranks need not wait for their programs.
  if (programs_.empty()) {
    for (Rank rank = 0; rank < RankCount(plan_); ++rank)
      programs_.push_back(CompileStep(plan_, rank, shape_, Purpose::kTrain));
  }
  const int instructions = static_cast<int>(programs_[unit].instructions.size());
  if (measured.start_seconds_size() != instructions || measured.end_seconds_size() != instructions)
    return std::nullopt;
  std::map<int, v1::MeasuredStep>& step = waiting_[measured.step()];
  step[unit] = measured;
  if (step.size() < programs_.size()) return std::nullopt;

  double origin = measured.started_at_seconds();
  for (const auto& [u, m] : step) origin = std::min(origin, m.started_at_seconds());
  v1::Trace trace;
  trace.set_job_id(job_id_);
  trace.set_step(measured.step());
  trace.set_started_at_seconds(origin);
  for (const auto& [u, m] : step) {
    v1::TraceLane& lane = *trace.add_lanes();
    lane.set_device(DeviceOf(plan_, u));
    for (const v1::PeerTraffic& traffic : m.traffic()) {
      if (traffic.peer() < programs_.size()) *lane.add_traffic() = traffic;
    }
    const double offset = m.started_at_seconds() - origin;
    for (int i = 0; i < m.start_seconds_size(); ++i) {
      const Instruction& instruction = programs_[u].instructions[i];
      v1::TraceInstruction& out = *lane.add_instructions();
      out.set_kind(NameOf(instruction));
      out.set_stream(static_cast<uint32_t>(instruction.stream));
      out.set_micro_batch(instruction.micro_batch.value());
      if (instruction.blocks.size() > 0) {
        out.mutable_blocks()->set_first(instruction.blocks.first);
        out.mutable_blocks()->set_end(instruction.blocks.end);
      }
      out.set_bytes(instruction.bytes.value);
      out.set_parts(PartsOfPass(plan_.units[programs_[u].unit], instruction.kind));
      if (!predictions_.empty()) {
        out.set_predicted_start_seconds(predictions_[u].timeline[i].start_seconds);
        out.set_predicted_end_seconds(predictions_[u].timeline[i].end_seconds);
      }
      out.set_measured_start_seconds(offset + m.start_seconds(i));
      out.set_measured_end_seconds(offset + m.end_seconds(i));
    }
  }
  waiting_.erase(waiting_.begin(), waiting_.upper_bound(measured.step()));
  return trace;
}

}  // namespace medley

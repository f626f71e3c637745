#include "runtime/ir/program/going_ahead.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

using Kind = InstructionKind;

// A forward, as all units name it.
struct Forward {
  StageId stage;
  MicroBatchId micro_batch;
};

// Those of a unit before its first gradient.
std::vector<Forward> FirstForwards(const Plan& plan, UnitId unit) {
  const Visits visits = VisitsOf(plan, unit);
  std::vector<Forward> forwards;
  for (const UnitOp& op : OrderOfUnit(plan, unit, visits)) {
    if (op.kind == UnitOp::Kind::kReceiveActivation || op.kind == UnitOp::Kind::kReceiveGradient) continue;
    const int most = plan.units[unit].forwards_ahead;
    if (op.kind != UnitOp::Kind::kForward || static_cast<int>(forwards.size()) == most) break;
    const Visit& visit = visits[op.visit];
    forwards.push_back({visit.stage, visit.first_micro_batch + op.micro_batch});
  }
  return forwards;
}

}  // namespace

GoingAhead::GoingAhead(const Plan& plan, Purpose purpose) : forwards_(plan.units.size()) {
  if (!plan.post_validation || purpose == Purpose::kEvaluate) return;
  std::vector<std::vector<Forward>> firsts;
  for (UnitId unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
    firsts.push_back(FirstForwards(plan, unit));
    for (const Forward& forward : firsts.back())
      ahead_.insert({forward.stage.value(), forward.micro_batch.value()});
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::vector<Forward>& forwards : firsts) {
      const auto lacks_input = std::find_if(forwards.begin(), forwards.end(), [&](const Forward& forward) {
        return forward.stage > 0 && !Contains(forward.stage - 1, forward.micro_batch);
      });
      for (auto later = lacks_input; later != forwards.end(); ++later)
        ahead_.erase({later->stage.value(), later->micro_batch.value()});
      changed = changed || lacks_input != forwards.end();
      forwards.erase(lacks_input, forwards.end());
    }
  }
  for (size_t unit = 0; unit < firsts.size(); ++unit) forwards_[unit] = static_cast<int>(firsts[unit].size());
}

StepProgram WithEnds(const StepProgram& whole, int ahead, StepEnds ends) {
  if (!whole.buffers.goes_ahead && ends.gathers) return whole;
  StepProgram program = whole;
  program.instructions.clear();
  std::vector<int> moved(whole.instructions.size(), -1);
  // Copies [first, end). What they wait for has been copied, or was done in the step before.
  const auto copy = [&](int first, int end) {
    for (int i = first; i < end; ++i) {
      Instruction instruction = whole.instructions[i];
      for (int& other : instruction.waits_for) other = other < 0 ? -1 : moved[other];
      moved[i] = static_cast<int>(program.instructions.size());
      program.instructions.push_back(instruction);
    }
  };
  if (!whole.buffers.goes_ahead) {
    copy(ahead, static_cast<int>(whole.instructions.size()));
    return program;
  }
  const int update = static_cast<int>(whole.instructions.size()) - 1;
  if (!ends.begins_ahead) copy(0, ahead);
  copy(ahead, update);
  if (ends.goes_ahead) {
    // What is filled ahead was let go by passes, all of which come before the norm, or by sends of forwards.
    int norm = -1, send = -1;
    for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
      if (program.instructions[i].kind == Kind::kNormGradients) norm = i;
      if (program.instructions[i].kind == Kind::kSendActivation) send = i;
    }
    program.instructions.push_back({.kind = Kind::kAdvanceParameters, .stream = Stream::kCompute});
    const int first = static_cast<int>(program.instructions.size());
    copy(0, ahead);
    for (int i = first; i < static_cast<int>(program.instructions.size()); ++i) {
      Instruction& instruction = program.instructions[i];
      instruction.next_step = true;
      if (IsReceive(instruction.kind)) instruction.WaitFor(norm);
      if (instruction.kind == Kind::kForward) instruction.WaitFor(send);
    }
  }
  copy(update, update + 1);
  return program;
}

StepProgram StepsInARow(const Plan& plan, Rank rank, const TrainingShape& shape, int steps) {
  MicroBatchId micro_batches = 0;
  for (const Route& route : plan.routes) micro_batches = micro_batches + route.micro_batches;
  StepProgram row;
  for (int step = 0; step < steps; ++step) {
    StepProgram next = CompileStep(plan, rank, shape, Purpose::kTrain,
                                   {.begins_ahead = step > 0, .goes_ahead = true, .gathers = step > 0});
    const int before = static_cast<int>(row.instructions.size());
    // The last of what the step before did on each stream. All else has been waited for.
    std::array<int, kStreams> ends;
    ends.fill(-1);
    for (int i = 0; i < before; ++i) ends[static_cast<int>(row.instructions[i].stream)] = i;
    std::array<bool, kStreams> begun{};
    for (Instruction& instruction : next.instructions) {
      for (int& other : instruction.waits_for) other = other < 0 ? -1 : before + other;
      if (instruction.micro_batch >= 0) {
        instruction.micro_batch =
            instruction.micro_batch + (step + (instruction.next_step ? 1 : 0)) * micro_batches.value();
      }
      if (!std::exchange(begun[static_cast<int>(instruction.stream)], true)) {
        for (const Stream stream : {Stream::kCompute, Stream::kSendActivation, Stream::kSendGradient}) {
          if (stream != instruction.stream) instruction.WaitFor(ends[static_cast<int>(stream)]);
        }
        // What it fetches, or gathers where it lives, has been stored.
        if (instruction.stream == Stream::kFetch || instruction.stream == Stream::kCollective)
          instruction.WaitFor(ends[static_cast<int>(Stream::kStore)]);
      }
      row.instructions.push_back(instruction);
    }
    next.instructions = std::move(row.instructions);
    row = std::move(next);
  }
  return row;
}

}  // namespace medley

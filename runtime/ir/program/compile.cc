#include <algorithm>
#include <vector>

#include "runtime/ir/program/assign_buffers.h"
#include "runtime/ir/program/backward_passes.h"
#include "runtime/ir/program/forward_passes.h"
#include "runtime/ir/program/going_ahead.h"
#include "runtime/ir/program/kept_activations.h"
#include "runtime/ir/program/parameter_gathers.h"
#include "runtime/ir/program/program.h"
#include "runtime/ir/program/schedule.h"
#include "runtime/ir/program/step_end.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {
namespace {

using OpKind = UnitOp::Kind;

bool GoesAhead(const Visits& visits, const UnitOp& op, const GoingAhead& going_ahead) {
  const bool forward = op.kind == OpKind::kForward || op.kind == OpKind::kReceiveActivation;
  const Visit& visit = visits[op.visit];
  return forward && going_ahead.Contains(visit.stage, visit.first_micro_batch + op.micro_batch);
}

// The order of the unit's schedule, as it is written: of an evaluation its forwards alone. What may be made in the
// step before comes before all else, messages that are taken in early among that.
UnitOrder OrderOfStep(const StepWriter& writer, const GoingAhead& going_ahead) {
  const StepProgram& program = writer.program();
  UnitOrder order = OrderOfUnit(writer.plan(), program.unit, program.visits);
  if (!writer.trains()) {
    std::erase_if(order, [](const UnitOp& op) {
      return op.kind != OpKind::kForward && op.kind != OpKind::kReceiveActivation;
    });
  }
  if (writer.backwards_by_layer()) {
    std::erase_if(order, [](const UnitOp& op) { return op.kind == OpKind::kWeightGradient; });
    for (UnitOp& op : order) {
      if (op.kind == OpKind::kInputGradient) op.kind = OpKind::kBackward;
    }
  }
  std::stable_partition(order.begin(), order.end(),
                        [&](const UnitOp& op) { return GoesAhead(program.visits, op, going_ahead); });
  return order;
}

// Whether micro-batches may pass all layers one after another, and each layer is fetched once all the same. Where layers
// live with their holders one that has fewer windows would have to give back a window for a gather that a
// micro-batch waits for, which others wait for in turn.
bool EachLayerStaysInItsWindow(const StepWriter& writer) {
  const Unit& unit = writer.unit();
  const ModelConfig& model = writer.shape().model;
  return unit.lives_on_peers() ? HasWindowsForAllLayers(writer.plan(), model)
                               : unit.window_layers >= LayersOf(unit, model);
}

// Whether all micro-batches of a chunk pass a layer, then the next one. A unit that is passed again may have to send
// before it gets all that it waits for; and all micro-batches of a layer at a time keep what they keep until the
// last layer, so that nothing of it could go to host memory meanwhile.
bool PassesGoTogether(const StepWriter& writer) {
  return writer.windows_here() && writer.plan().schedule == Schedule::kGPipe &&
         PassesEachUnitOnce(writer.plan()) && writer.unit().activations_home == ActivationsHome::kDevice &&
         !EachLayerStaysInItsWindow(writer);
}

// Writes the passes of a step, with their messages, in the order of the unit's schedule.
class StepPasses {
 public:
  // All outlive it.
  StepPasses(StepWriter& writer, StepEnd& end, const ParameterGathers& gathers, const GoingAhead& going_ahead,
             const UnitOrder& order)
      : writer_(writer),
        going_ahead_(going_ahead),
        order_(order),
        kept_(writer, order),
        forwards_(writer, kept_, end, gathers, going_ahead),
        backwards_(writer, kept_, end, order),
        go_together_(PassesGoTogether(writer)) {}

  // Returns how many instructions come first that may be made in the step before.
  int Write() {
    std::vector<UnitOp> passes;  // those that go through their chunk together
    for (size_t i = 0; i < order_.size();) {
      const UnitOp& op = order_[i];
      if (ahead_ < 0 && !GoesAhead(program().visits, op, going_ahead_)) EndAhead();
      const size_t first = i++;
      if (!IsPass(op.kind)) {
        Receive(op);
        continue;
      }
      for (passes = {op}; i < order_.size() && GoesOn(passes.back(), order_[i]); ++i) {
        if (IsPass(order_[i].kind)) {
          passes.push_back(order_[i]);
        } else {
          Receive(order_[i]);
        }
      }
      if (op.kind != OpKind::kForward) EndForwards();
      kept_.FetchAhead(first);
      if (op.kind == OpKind::kForward) {
        forwards_.Write(passes);
      } else {
        backwards_.Write(passes);
      }
    }
    return ahead_;
  }

 private:
  const StepProgram& program() const { return writer_.program(); }

  void Receive(const UnitOp& op) {
    const int i = writer_.Enter(op);
    writer_.AddMessages(op.kind == OpKind::kReceiveActivation ? InstructionKind::kReceiveActivation
                                                              : InstructionKind::kReceiveGradient,
                        i);
  }

  // Whether `op` goes through its chunk together with `pass`, or is what it needs for that: each layer is fetched once
  // for all of them.
  bool GoesOn(const UnitOp& pass, const UnitOp& op) const {
    if (!go_together_) return false;
    const bool receives =
        op.kind == (pass.kind == OpKind::kForward ? OpKind::kReceiveActivation : OpKind::kReceiveGradient);
    const Visits& visits = program().visits;
    return (op.kind == pass.kind || receives) && visits[op.visit].chunk == visits[pass.visit].chunk;
  }

  void EndAhead() {
    ahead_ = static_cast<int>(program().instructions.size());
    forwards_.SendWhatWaits();
  }

  // Layers that live with their holders are gathered anew for the backwards, by all of them, whatever their windows
  // still have.
  void EndForwards() {
    if (!writer_.unit().lives_on_peers() || forwards_ended_) return;
    writer_.windows().DropAll(BufferKind::kParameterWindow);
    forwards_ended_ = true;
  }

  StepWriter& writer_;
  const GoingAhead& going_ahead_;
  const UnitOrder& order_;
  KeptActivations kept_;
  ForwardPasses forwards_;
  BackwardPasses backwards_;
  const bool go_together_;
  int ahead_ = -1;  // not yet known
  bool forwards_ended_ = false;
};

// What its buffers say of the unit.
void DescribeUnit(const StepWriter& writer, const GoingAhead& going_ahead, BufferCounts& buffers) {
  const Unit& unit = writer.unit();
  buffers.ranks = static_cast<int>(unit.devices.size());
  buffers.member = writer.place().member;
  buffers.sequence_parallel = unit.sequence_parallel;
  buffers.exchange_parts = unit.exchange_parts;
  buffers.windows = unit.window_layers;
  buffers.home = unit.layers_home;
  buffers.activations_home = unit.activations_home;
  buffers.homed_layers = unit.homed_layers;
  buffers.recompute = unit.recompute;
  buffers.recomputed_layers = unit.recomputed_layers;
  buffers.goes_ahead = going_ahead.ForwardsOf(writer.program().unit) > 0;
  buffers.activations = buffers.narrowest = unit.activations;
  for (const Visit& visit : writer.program().visits) {
    for (const UnitId other : {visit.previous, visit.next}) {
      if (other >= 0) buffers.narrowest = NarrowerOf(buffers.narrowest, writer.TypeAcross(other));
    }
  }
}

// The buffers of all that the passes use.
BufferCounts GiveBuffers(StepWriter& writer) {
  BufferCounts buffers = AssignBuffers(writer.program().instructions);
  const size_t chunks = writer.unit().chunks.size();
  buffers.stash.resize(chunks);
  buffers.leaving_stash.resize(chunks);
  buffers.deferred.resize(chunks);
  buffers.stash_home.resize(chunks);
  return buffers;
}

}  // namespace

StepProgram CompileStep(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose,
                        StepEnds ends) {
  StepWriter writer(plan, rank, shape, purpose);
  StepProgram& program = writer.program();
  const GoingAhead going_ahead(plan, purpose);
  DescribeUnit(writer, going_ahead, program.buffers);
  const UnitOrder order = OrderOfStep(writer, going_ahead);
  if (writer.trains() || writer.unit().lives_on_peers()) writer.TakeSlices();
  // A pass, and a message on each side.
  program.instructions.reserve(3 * order.size() + 3 * program.slices.size() + 3);
  writer.OpenWindows();
  ParameterGathers gathers(writer);
  if (writer.trains() && plan.shards_optimizer) gathers.Write();
  StepEnd end(writer);
  const int ahead = StepPasses(writer, end, gathers, going_ahead, order).Write();
  program.buffers = GiveBuffers(writer);
  DescribeUnit(writer, going_ahead, program.buffers);
  if (writer.trains()) end.AddReductions();
  end.AddEnd();
  return WithEnds(program, ahead, ends);
}

}  // namespace medley

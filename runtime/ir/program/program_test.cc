#include "runtime/ir/program/program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/program_machine.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

using Kind = InstructionKind;

// Whether the gradients of inputs and of weights are passes of their own, in a schedule that is not listed.
bool Splits(const Plan& plan, UnitId unit) {
  return (plan.schedule == Schedule::kZeroBubbleH1 || plan.schedule == Schedule::kZeroBubbleV) &&
         plan.units[unit].recompute == Recompute::kNone;
}

// Micro-batches that a stage has under way at most, by what is known of its schedule.
int MostAlive(Schedule schedule, const Visit& at) {
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      return std::min(at.stages - at.stage, at.micro_batches);
    case Schedule::kZeroBubbleH1:
    case Schedule::kZeroBubbleV:
      return std::min(at.stages, at.micro_batches);
    default:
      return at.micro_batches;
  }
}

struct Peaks {
  int alive = 0, deferred = 0;
};
// What a unit that is passed once and lists its order has under way at most.
Peaks PeaksOf(const Unit& unit) {
  Peaks now, peaks;
  for (UnitOp op : unit.order) {
    if (unit.recompute != Recompute::kNone) {  // backwards are whole
      if (op.kind == UnitOp::Kind::kWeightGradient) continue;
      if (op.kind == UnitOp::Kind::kInputGradient) op.kind = UnitOp::Kind::kBackward;
    }
    now.alive += op.kind == UnitOp::Kind::kForward ? 1 : 0;
    now.deferred += op.kind == UnitOp::Kind::kInputGradient ? 1 : 0;
    peaks = {std::max(peaks.alive, now.alive), std::max(peaks.deferred, now.deferred)};
    now.alive -= op.kind == UnitOp::Kind::kWeightGradient || op.kind == UnitOp::Kind::kBackward ? 1 : 0;
    now.deferred -= op.kind == UnitOp::Kind::kWeightGradient ? 1 : 0;
  }
  return peaks;
}

TEST_CASE("the programs of all ranks end, in any order, and no buffer is overwritten in use", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      CAPTURE(static_cast<int>(purpose), Describe(planned.plan));
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      if (purpose != Purpose::kTrain) continue;
      for (const StepProgram& program : machine.programs()) {
        REQUIRE(program.visits.size() == 1);
        const Visit& at = program.visits[0];
        const Schedule schedule = planned.plan.schedule;
        if (schedule == Schedule::kListed) {
          const Peaks peaks = PeaksOf(planned.plan.units[program.unit]);
          CHECK(program.buffers.stash[0] == peaks.alive);
          CHECK(program.buffers.deferred[0] == peaks.deferred);
          CHECK(machine.peak_stash(program.rank, 0) == peaks.alive);
          continue;
        }
        const bool splits = Splits(planned.plan, program.unit),
                   all = schedule == Schedule::kGPipe || schedule == Schedule::kInterleavedGPipe;
        const int alive = std::min(all      ? at.micro_batches
                                   : splits ? at.stages
                                            : at.stages - at.stage,
                                   at.micro_batches);
        CHECK(program.buffers.stash[0] == alive);
        // One more than are in use, so that the next can arrive; no more than there are micro-batches.
        const int two = std::min(2, at.micro_batches), more = std::min(alive + 1, at.micro_batches);
        CHECK(program.buffers.input == (at.first() ? 0 : more));
        CHECK(program.buffers.output == (at.last() ? 0 : two));
        CHECK(program.buffers.input_gradient == (at.first() ? 0 : two));
        // Those whose weights' gradients are put off stay.
        const int deferred = splits ? std::min(at.stage + 1, at.micro_batches) : 0;
        CHECK(program.buffers.deferred[0] == deferred);
        CHECK(program.buffers.output_gradient ==
              (at.last() ? 0 : std::min(two + std::max(deferred - 1, 0), at.micro_batches)));
        CHECK(machine.peak_stash(program.rank, 0) == alive);
      }
    }
  }
}

TEST_CASE("so do those of units of several devices and ranges that several routes pass", "[property]") {
  int several_devices = 0, several_chunks = 0, several_routes = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomWidePlan(seed);
    CAPTURE(Describe(planned.plan));
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      CAPTURE(static_cast<int>(purpose));
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      for (const StepProgram& program : machine.programs()) {
        const Unit& unit = planned.plan.units[program.unit];
        REQUIRE(program.buffers.stash.size() == unit.chunks.size());
        for (int chunk = 0; chunk < static_cast<int>(unit.chunks.size()); ++chunk) {
          CHECK(program.buffers.stash[chunk] == machine.peak_stash(program.rank, chunk));
          int most = 0;
          for (const Visit& at : program.visits) {
            if (at.chunk == chunk) most += MostAlive(planned.plan.schedule, at);
          }
          if (purpose == Purpose::kTrain) CHECK(program.buffers.stash[chunk] <= most);
        }
        several_devices += unit.devices.size() > 1;
        several_chunks += unit.chunks.size() > 1;
        std::set<int> routes;
        for (const Visit& visit : program.visits) routes.insert(visit.route);
        several_routes += routes.size() > 1;
      }
    }
  }
  CHECK(several_devices > 100);
  CHECK(several_chunks > 100);
  CHECK(several_routes > 100);
}

TEST_CASE(
    "in sequence parallelism nothing is gathered before a pass, and norms are joined once, before their sums",
    "[property]") {
  int joined = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const PlannedShape planned = RandomWidePlan(seed);
    CAPTURE(seed, Describe(planned.plan));
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const StepProgram program = CompileStep(planned.plan, rank, planned.shape, Purpose::kTrain);
      const Unit& unit = planned.plan.units[program.unit];
      std::map<int, int> joins;  // by block
      int norm = -1;
      for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
        const Instruction& instruction = program.instructions[i];
        if (IsGather(instruction.kind)) CHECK_FALSE(unit.sequence_parallel);
        if (instruction.kind == Kind::kNormGradients) norm = i;
        if (instruction.kind == Kind::kReduceGradients && unit.sequence_parallel) {
          // Behind the join of a piece, if that has norms.
          const Instruction& before = program.instructions[instruction.waits_for[0]];
          CHECK((before.kind == Kind::kJoinGradients || before.blocks == BlockRange{0, 1}));
        }
        if (instruction.kind != Kind::kJoinGradients) continue;
        CHECK(norm < 0);
        int pass = i - 1;  // its gradient may be on its way already
        while (program.instructions[pass].stream != Stream::kCompute) --pass;
        CHECK(program.instructions[pass].blocks == instruction.blocks);
        CHECK(instruction.bytes.value > 0);
        for (BlockId block = instruction.blocks.first; block < instruction.blocks.end; ++block)
          ++joins[block];
      }
      for (const auto& [block, times] : joins) CHECK(times == 1);
      int norms = 0;
      for (const BlockRange& chunk : unit.chunks) norms += chunk.size() - (chunk.first == 0 ? 1 : 0);
      joins.erase(0);
      CHECK(static_cast<int>(joins.size()) == (unit.sequence_parallel ? norms : 0));
      joined += static_cast<int>(joins.size());
    }
  }
  CHECK(joined > 200);
}

TEST_CASE(
    "where the optimizer is sharded sums are scattered and parameters gathered after the update, in one "
    "order "
    "for all, and the programs end",
    "[property]") {
  int gathered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    ShardOptimizer(planned.plan, planned.shape.model, seed);
    CAPTURE(seed, Describe(planned.plan));
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      if (purpose != Purpose::kTrain) continue;
      for (const StepProgram& program : machine.programs()) {
        std::vector<int> scattered, gathers;
        int norm = -1, update = -1, first_pass = -1;
        for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
          const Instruction& instruction = program.instructions[i];
          CHECK(instruction.kind != Kind::kReduceGradients);
          if (instruction.kind == Kind::kNormGradients) norm = i;
          if (instruction.kind == Kind::kUpdateParameters) update = i;
          if (first_pass < 0 && IsPass(instruction.kind)) first_pass = i;
          if (!IsOfSlice(instruction.kind)) continue;
          CHECK(instruction.bytes.value == 4 * program.slices[instruction.slice].elements);
          if (instruction.kind == Kind::kScatterGradients) {
            CHECK(norm < 0);
            scattered.push_back(instruction.slice);
          } else {
            CHECK(first_pass < 0);
            CHECK(instruction.waits_for[0] == -1);
            gathers.push_back(instruction.slice);
          }
        }
        REQUIRE(update > norm);
        CHECK(scattered.size() == program.slices.size());
        const StepProgram alone = GathersAlone(program);
        CHECK(alone.instructions.size() == gathers.size());
        gathered += static_cast<int>(gathers.size());
        std::sort(gathers.begin(), gathers.end());
        CHECK(gathers == scattered);
        CHECK(program.instructions.back().kind == Kind::kUpdateParameters);
      }
    }
  }
  CHECK(gathered > 1000);
}

TEST_CASE("what owners have updated is gathered in the next step before it is used, wherever layers live",
          "[property]") {
  int on_hosts = 0, on_peers = 0, waited = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    ShardOptimizer(planned.plan, planned.shape.model, seed);
    if (seed % 3 == 1) MoveLayersToHost(planned.plan, planned.shape.model, seed);
    if (seed % 3 == 2) MoveLayersToPeers(planned.plan, planned.shape.model, seed);
    CAPTURE(seed, Describe(planned.plan));
    ProgramMachine machine(planned, Purpose::kTrain, seed, seed % 3 == 0 ? 3 : 1);
    REQUIRE(machine.Run());
    for (const StepProgram& program : machine.programs()) {
      on_hosts += planned.plan.units[program.unit].lives_on_host();
      on_peers += planned.plan.units[program.unit].lives_on_peers();
      for (const Instruction& instruction : program.instructions) {
        for (const int other : instruction.waits_for)
          waited += instruction.kind == Kind::kForward && other >= 0 &&
                    program.instructions[other].kind == Kind::kGatherParameters;
      }
    }
  }
  CHECK(on_hosts > 50);
  CHECK(on_peers > 50);
  CHECK(waited > 500);
}

TEST_CASE("the first forward of a chunk comes in pieces, which wait for no more than they use") {
  // Two replicas, whose layers are large enough for a bucket each.
  PlannedShape planned{.plan = {.shards_optimizer = true}};
  ModelConfig& model = planned.shape.model;
  model = {.layers = 4, .hidden = 1024, .heads = 8, .feed_forward = 4096, .vocabulary = 128, .context = 16};
  planned.shape.sequence = 16;
  planned.shape.global_batch_sequences = 4;
  for (int r = 0; r < 2; ++r) {
    planned.plan.units.push_back({.devices = {r == 0 ? "a/0" : "a/1"}, .chunks = {{0, model.blocks()}}});
    planned.plan.routes.push_back({{r}, 2, 1});
  }
  const StepProgram program = CompileStep(planned.plan, 1, planned.shape, Purpose::kTrain);
  std::vector<int> waits_of_first, waits_of_second;
  int gathers = 0;
  for (const Instruction& instruction : program.instructions) {
    gathers += instruction.kind == Kind::kGatherParameters;
    if (instruction.kind != Kind::kForward) continue;
    (instruction.micro_batch == 2 ? waits_of_first : waits_of_second).push_back(instruction.waits_for[0]);
  }
  CHECK(gathers >= 4);
  CHECK(waits_of_second == std::vector<int>{-1});
  REQUIRE(waits_of_first.size() >= 4);
  CHECK(waits_of_first.back() == gathers - 1);
  for (size_t piece = 1; piece < waits_of_first.size(); ++piece)
    CHECK(waits_of_first[piece] > waits_of_first[piece - 1]);
  // The same step behind one of which all is there.
  const StepProgram first = CompileStep(planned.plan, 1, planned.shape, Purpose::kTrain, {.gathers = false});
  CHECK(first.instructions.size() + gathers == program.instructions.size());
  CHECK(first.buffers.stash == program.buffers.stash);
}

TEST_CASE("layers that live on the host are in their windows when they are used, and go home changed",
          "[property]") {
  int fetched = 0, together = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    if (seed % 3 == 0) ShardOptimizer(planned.plan, planned.shape.model, seed);
    MoveLayersToHost(planned.plan, planned.shape.model, seed);
    if (seed % 5 == 0) planned.plan.schedule = Schedule::kGPipe;
    if (seed % 5 == 0) {
      for (Unit& unit : planned.plan.units) {
        unit.order.clear();
        unit.paces.clear();
      }
    }
    CAPTURE(seed, Describe(planned.plan));
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      for (const StepProgram& program : machine.programs()) {
        CHECK(program.buffers.windows == planned.plan.units[program.unit].window_layers);
        for (const Instruction& i : program.instructions) fetched += i.kind == Kind::kFetch;
        together += program.buffers.stream_gradient;
      }
    }
  }
  CHECK(fetched > 1000);
  CHECK(together > 20);
}

TEST_CASE(
    "layers that live with their holders are gathered once for the forwards and once for the backwards by "
    "all of "
    "them, and scattered once, and the programs end",
    "[property]") {
  int plans = 0, pipelines = 0, gathered = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    if (!MoveLayersToPeers(planned.plan, planned.shape.model, seed)) continue;
    ++plans;
    pipelines += planned.plan.units.size() > planned.plan.routes.size();
    CAPTURE(seed, Describe(planned.plan));
    REQUIRE(CheckPlanForm(planned.plan, planned.shape).empty());
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      for (const StepProgram& program : machine.programs()) {
        const Unit& unit = planned.plan.units[program.unit];
        int scattered = 0, slices = 0;
        for (const Instruction& i : program.instructions) {
          // But for activations.
          CHECK((i.kind != Kind::kFetch || i.micro_batch >= 0));
          CHECK((i.kind != Kind::kStore || i.micro_batch >= 0));
          scattered += i.kind == Kind::kScatterGradients && i.stream == Stream::kStore;
        }
        for (const GradientSlice& slice : program.slices) slices += slice.on_peers;
        CHECK(scattered == (purpose == Purpose::kTrain ? slices : 0));
        for (BlockId layer = 0; layer < planned.shape.model.blocks(); ++layer) {
          if (!planned.shape.model.is_layer(layer) || !Holds(unit, layer)) continue;
          const int times = unit.parameters_have_windows() ? (purpose == Purpose::kTrain ? 2 : 1) : 0;
          CHECK(machine.gathered(program.rank, layer) == times);
          gathered += times;
        }
      }
    }
  }
  CHECK(plans > 100);
  CHECK(pipelines > 30);
  CHECK(gathered > 1000);
}

// Of a chunk's blocks, those whose activations go home: of the unit's first layers and what is before them, or of all.
struct BlocksByHome {
  std::vector<BlockId> homed, staying;
};
BlocksByHome ByHome(const Unit& unit, size_t chunk, const ModelConfig& model) {
  BlocksByHome blocks;
  int layers = 0;
  for (size_t c = 0; c <= chunk; ++c) {
    for (BlockId block = unit.chunks[c].first; block < unit.chunks[c].end; ++block) {
      const bool all = unit.homed_layers == 0 || unit.homed_layers == LayersOf(unit, model);
      const bool before =
          model.is_layer(block) ? ++layers <= unit.homed_layers : block == model.embedding_block();
      const bool goes = unit.activations_home == ActivationsHome::kHost && (all || before);
      if (c == chunk) (goes ? blocks.homed : blocks.staying).push_back(block);
    }
  }
  return blocks;
}

TEST_CASE(
    "activations that live on the host go home whole and are back when they are needed, and leave fewer "
    "stashes on the "
    "device",
    "[property]") {
  int travelled = 0, in_part = 0, beside_layers = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    if (seed % 3 == 0) ShardOptimizer(planned.plan, planned.shape.model, seed);
    if (seed % 4 == 0) MoveLayersToHost(planned.plan, planned.shape.model, seed);
    if (seed % 5 == 0) planned.plan.schedule = Schedule::kGPipe;
    if (seed % 5 == 0) {
      for (Unit& unit : planned.plan.units) {
        unit.order.clear();
        unit.paces.clear();
      }
    }
    const Plan on_device = planned.plan;
    MoveActivationsToHost(planned.plan, planned.shape.model, seed);
    CAPTURE(seed, Describe(planned.plan));
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      ProgramMachine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      for (const StepProgram& program : machine.programs()) {
        const Unit& unit = planned.plan.units[program.unit];
        std::vector<int> stores(unit.chunks.size(), 0), fetches(unit.chunks.size(), 0);
        std::map<std::pair<int, int>, Bytes> stored;  // by visit and micro-batch
        for (const Instruction& i : program.instructions) {
          if (i.micro_batch < 0 || (i.kind != Kind::kStore && i.kind != Kind::kFetch)) continue;
          const std::pair<int, int> of(i.visit, i.micro_batch.value());
          ++(i.kind == Kind::kStore ? stores : fetches)[i.chunk];
          if (i.kind == Kind::kStore) CHECK(stored.emplace(of, i.bytes).second);
          if (i.kind == Kind::kFetch) CHECK(stored.at(of) == i.bytes);
          const ModelConfig local =
              LocalModel(planned.shape.model, ShareOf(planned.plan, program.rank, planned.shape.model));
          const RowCounts rows =
              RowCountsOf(program.buffers,
                          int64_t{program.visits[i.visit].micro_batch_sequences} * planned.shape.sequence);
          const LayersMadeAgain made_again =
              LastLayersMadeAgain(planned.shape.model, unit.chunks, unit.recompute, unit.recomputed_layers);
          Bytes kept;
          for (const BlockId block : ByHome(unit, i.chunk, planned.shape.model).homed)
            kept +=
                StashBytes(local, block, rows, unit.activations, made_again.Of(planned.shape.model, block));
          CHECK(i.bytes == kept);
          CHECK(i.bytes > Bytes{0});
          beside_layers += unit.window_layers > 0;
        }
        CHECK(stores == fetches);
        const BufferCounts before =
            CompileStep(on_device, program.rank, planned.shape, Purpose::kTrain).buffers;
        for (size_t chunk = 0; chunk < unit.chunks.size(); ++chunk) {
          const int stash = program.buffers.stash[chunk], homed = program.buffers.leaving_stash[chunk],
                    home = program.buffers.stash_home[chunk];
          const auto [homed_blocks, staying_blocks] = ByHome(unit, chunk, planned.shape.model);
          if (homed_blocks.empty() || purpose == Purpose::kEvaluate) CHECK(stores[chunk] == 0);
          CHECK((home > 0) == (stores[chunk] > 0));
          CHECK(home <= stores[chunk]);
          CHECK((stash > 0) == !staying_blocks.empty());
          CHECK((homed > 0) == !homed_blocks.empty());
          if (purpose == Purpose::kTrain) {
            if (!staying_blocks.empty()) CHECK(stash == before.stash[chunk]);
            if (!homed_blocks.empty())
              CHECK((stores[chunk] > 0 ? homed < before.stash[chunk] : homed == before.stash[chunk]));
          }
          travelled += stores[chunk];
          if (!staying_blocks.empty()) in_part += stores[chunk];
        }
      }
    }
  }
  CHECK(travelled > 1000);
  CHECK(in_part > 200);
  CHECK(beside_layers > 100);
}

TEST_CASE("under GPipe a layer on the host is fetched once for all micro-batches, each way") {
  PlannedShape planned;
  planned.shape = {
      .model = {.layers = 6, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8},
      .sequence = 8,
      .global_batch_sequences = 5};
  planned.plan = {.schedule = Schedule::kGPipe,
                  .units = {{.devices = {"a/0"}, .chunks = {{0, 8}}, .window_layers = 2}},
                  .routes = {{{0}, 5, 1}}};
  const StepProgram program = CompileStep(planned.plan, 0, planned.shape, Purpose::kTrain);
  int64_t bytes = 0;
  for (const Instruction& i : program.instructions)
    bytes += i.kind == Kind::kFetch || i.kind == Kind::kStore ? i.bytes.value : 0;
  // Parameters come forward, backward and for the update, and go after it; gradients go and come; moments come and
  // go: 40 bytes a parameter. Two layers are still there when backward begins, and two when the update does.
  const int64_t layer = SegmentElements(planned.shape.model, SegmentOfBlock(1));
  CHECK(bytes == (6 * 40 - 2 * 4 - 2 * (4 + 8)) * layer);
}

TEST_CASE(
    "with windows for two ranges of a unit, interleaved GPipe fetches a layer once for all micro-batches, "
    "each way") {
  const TrainingShape shape = {
      .model = {.layers = 14, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8},
      .sequence = 8,
      .global_batch_sequences = 6};
  Plan plan = {.schedule = Schedule::kInterleavedGPipe,
               .units = {{.devices = {"a/0"}, .chunks = {{0, 3}, {6, 8}, {10, 12}}, .window_layers = 4},
                         {.devices = {"b/0"}, .chunks = {{3, 6}, {8, 10}, {12, 16}}, .window_layers = 6}},
               .routes = {{{0, 1, 0, 1, 0, 1}, 6, 1}}};
  REQUIRE(CheckPlanForm(plan, shape).empty());
  const auto most_fetched = [&](Rank rank) {
    std::map<BlockId, int> times;
    for (const Instruction& i : CompileStep(plan, rank, shape, Purpose::kTrain).instructions) {
      const bool parameters = i.operands.front().buffer.kind == BufferKind::kParameterWindow;
      if (i.kind == Kind::kFetch && parameters) ++times[i.blocks.first];
    }
    int most = 0;
    for (const auto& [layer, count] : times) most = std::max(most, count);
    return most;
  };
  // For the forwards, for the backwards and for the update.
  for (const Rank rank : {0, 1}) CHECK(most_fetched(rank) <= 3);
  for (Unit& unit : plan.units) unit.window_layers = 1;
  for (const Rank rank : {0, 1}) CHECK(most_fetched(rank) > 6);
}

TEST_CASE("every micro-batch of a route passes each of its units once", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    std::set<int> micro_batches;
    std::vector<bool> sequences(planned.shape.global_batch_sequences, false);
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      CAPTURE(rank.value());
      const StepProgram program = CompileStep(planned.plan, rank, planned.shape, Purpose::kTrain);
      std::map<std::pair<Kind, int>, int> count;
      for (const Instruction& i : program.instructions) {
        const bool more_follow =
            IsGradient(i.kind) && i.blocks.first > planned.plan.units[program.unit].chunks[0].first;
        if (i.micro_batch >= 0 && !more_follow && i.kind != Kind::kRecompute)
          ++count[{i.kind, i.micro_batch}];
      }
      const Visit& at = program.visits[0];
      const Unit& unit = planned.plan.units[program.unit];
      size_t passes = (Splits(planned.plan, program.unit) ? 3 : 2) * at.micro_batches;
      if (planned.plan.schedule == Schedule::kListed) {
        passes = std::count_if(unit.order.begin(), unit.order.end(), [&](const UnitOp& op) {
          return unit.recompute == Recompute::kNone || op.kind != UnitOp::Kind::kWeightGradient;
        });
      }
      const size_t messages = (at.stage > 0 ? 2 : 0) + (at.stage + 1 < at.stages ? 2 : 0);
      CHECK(count.size() == passes + messages * at.micro_batches);
      for (const auto& [key, times] : count) {
        CHECK(times == 1);
        CHECK(key.second >= at.first_micro_batch);
        CHECK(key.second < at.first_micro_batch + at.micro_batches);
        micro_batches.insert(key.second);
      }
      for (int i = 0; i < at.micro_batches * at.micro_batch_sequences; ++i)
        sequences.at(at.first_sequence + i) = true;
    }
    int taken = 0;
    for (const Route& route : planned.plan.routes) taken += route.micro_batches;
    CHECK(static_cast<int>(micro_batches.size()) == taken);
    CHECK(std::find(sequences.begin(), sequences.end(), false) == sequences.end());
  }
}

TEST_CASE("a bucket is summed behind the piece of the last backward that completes it, others go on",
          "[property]") {
  int overlapped = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      const StepProgram program = CompileStep(planned.plan, u, planned.shape, Purpose::kTrain);
      int last_backward = -1;
      for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
        if (IsGradient(program.instructions[i].kind)) last_backward = i;
      }
      for (const Instruction& reduce : program.instructions) {
        if (reduce.kind != Kind::kReduceGradients) continue;
        const Instruction& piece = program.instructions[reduce.waits_for[0]];
        const GradientSlice& slice = program.slices[reduce.slice];
        if (planned.plan.schedule == Schedule::kListed) {
          REQUIRE((piece.kind == Kind::kBackward || piece.kind == Kind::kWeightGradient));
        } else {
          REQUIRE(piece.kind ==
                  (Splits(planned.plan, program.unit) ? Kind::kWeightGradient : Kind::kBackward));
          CHECK(piece.micro_batch ==
                program.visits[0].first_micro_batch + program.visits[0].micro_batches - 1);
        }
        CHECK(piece.blocks.first <= slice.completed_by);
        for (SegmentId segment = std::max(1, slice.first_segment.value()); segment < slice.end_segment;
             ++segment) {
          CHECK(piece.blocks.first <= segment - 1);
        }
        overlapped += reduce.waits_for[0] != last_backward;
      }
    }
  }
  CHECK(overlapped > 100);
}

TEST_CASE("buckets cover their segments once, from the last to the first, and are large enough",
          "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const ModelConfig model = RandomPlan(seed).shape.model;
    const int64_t enough = std::min<int64_t>(4 << 20, ModelElements(model) / 8);
    SegmentId end = SegmentCount(model);
    for (const auto& [first_segment, end_segment] : CutIntoBuckets(model, 0, SegmentCount(model))) {
      CHECK(end_segment <= end);
      for (SegmentId empty = end_segment; empty < end; ++empty) CHECK(SegmentElements(model, empty) == 0);
      int64_t elements = 0;
      for (SegmentId segment = first_segment; segment < end_segment; ++segment)
        elements += SegmentElements(model, segment);
      CHECK((elements >= enough || first_segment == 0));
      end = first_segment;
    }
    for (SegmentId empty = 0; empty < end; ++empty) CHECK(SegmentElements(model, empty) == 0);
  }
}

TEST_CASE("evaluation has forwards and the scalars, and nothing that trains") {
  const PlannedShape planned = RandomPlan(17);
  for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
    const StepProgram program = CompileStep(planned.plan, u, planned.shape, Purpose::kEvaluate);
    const int forwards =
        static_cast<int>(std::count_if(program.instructions.begin(), program.instructions.end(),
                                       [](const Instruction& i) { return i.kind == Kind::kForward; }));
    CHECK(forwards == program.visits[0].micro_batches);
    for (const Instruction& i : program.instructions) {
      CHECK((i.kind == Kind::kForward || i.kind == Kind::kSendActivation ||
             i.kind == Kind::kReceiveActivation || i.kind == Kind::kReduceScalars));
    }
    CHECK(program.instructions.back().kind == Kind::kReduceScalars);
  }
}

TEST_CASE("one unit answers for the norm of a segment", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    const ModelConfig& model = planned.shape.model;
    CAPTURE(seed, Describe(planned.plan));
    std::vector<std::set<int>> owners(SegmentCount(model));
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      for (const SegmentId segment : OwnedSegments(planned.plan, rank, model))
        owners[segment].insert(PlaceOf(planned.plan, rank).unit);
    }
    for (const std::set<int>& units : owners) CHECK(units.size() == 1);
  }
}

}  // namespace
}  // namespace medley

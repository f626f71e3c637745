#include "tests/same_loss/interrupted_launch.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/file_window_source.h"
#include "runtime/engine/exec/gather_segments.h"
#include "runtime/engine/exec/plan_peers.h"
#include "runtime/engine/exec/trainer.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// Has a launch end as it is to. Thread-safe.
class Fate {
 public:
  Fate(const Interruption& interruption, LoopbackFabric& fabric, int ranks)
      : interruption_(interruption), fabric_(fabric), ranks_(ranks) {}

  // `rank` has done `step`.
  void Reach(int rank, int64_t step) {
    if (step < interruption_.after_step) return;
    if (interruption_.kind == Interruption::Kind::kWish) wishes_ = true;
    if (interruption_.kind == Interruption::Kind::kDeath && rank == interruption_.rank) is_near_ = true;
  }

  // Before anything that `rank` does with others or reads. Cancelled: it is dead.
  absl::Status Act(int rank) {
    if (is_near_ && rank == interruption_.rank && ++operations_ == interruption_.operation) {
      struck_ = true;
      for (int other = 0; other < ranks_; ++other) fabric_.MarkGone(other, "all were killed");
    }
    return struck_ ? absl::CancelledError("all were killed") : absl::OkStatus();
  }

  bool wishes() const { return wishes_; }
  bool struck() const { return struck_; }

 private:
  const Interruption interruption_;
  LoopbackFabric& fabric_;
  const int ranks_;
  std::atomic<bool> wishes_ = false, is_near_ = false, struck_ = false;
  std::atomic<int> operations_ = 0;
};

// A transport whose rank may die.
class MortalTransport final : public Transport {
 public:
  MortalTransport(std::unique_ptr<Transport> inner, Fate& fate) : inner_(std::move(inner)), fate_(fate) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool IsPeer(int rank) const override { return inner_->IsPeer(rank); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory) override {
    RETURN_IF_ERROR(fate_.Act(rank()));
    return inner_->Send(peer, tag, bytes, memory);
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory) override {
    RETURN_IF_ERROR(fate_.Act(rank()));
    return inner_->Receive(peer, tag, bytes, memory);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  void MarkGone(int peer, const std::string& why) override { inner_->MarkGone(peer, why); }
  bool Reaches(MemoryType memory) const override { return inner_->Reaches(memory); }
  bool SharesMemory(int peer) const override { return inner_->SharesMemory(peer); }

 private:
  const std::unique_ptr<Transport> inner_;
  Fate& fate_;
};

// The job's windows, for a rank that may die as it reads one.
class MortalWindows final : public WindowSource {
 public:
  MortalWindows(WindowSource& inner, int rank, Fate& fate) : inner_(inner), rank_(rank), fate_(fate) {}
  absl::Status Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) override {
    RETURN_IF_ERROR(fate_.Act(rank_));
    return inner_.Read(purpose, step, index, ids);
  }

 private:
  WindowSource& inner_;
  const int rank_;
  Fate& fate_;
};

// What no rank has of a tensor.
const float kNotHeld = std::nanf("1");

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Adds what one more rank has. Internal: another has it with other bits.
absl::Status Add(const ModelConfig& model, const ParameterArena& arena, State& state) {
  for (const SegmentId segment : arena.layout().segments) {
    for (const ParameterSpec& tensor : SegmentParameters(model, segment)) {
      for (const Part part : kSavedParts) {
        std::vector<float> held(tensor.elements, kNotHeld);
        RETURN_IF_ERROR(arena.Read(part, tensor.name, absl::MakeSpan(held)));
        std::vector<float>& whole =
            state.of(part).try_emplace(tensor.name, tensor.elements, kNotHeld).first->second;
        for (size_t i = 0; i < held.size(); ++i) {
          if (SameBits(held[i], kNotHeld)) continue;
          if (!SameBits(whole[i], kNotHeld) && !SameBits(whole[i], held[i]))
            return absl::InternalError(absl::StrCat("holders of ", tensor.name, " differ"));
          whole[i] = held[i];
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status TrainRank(const TrainingSpec& spec, const Launch& launch, int rank, Transport& transport,
                       Fate& fate, Mutex& mutex, Outcome& outcome) {
  ASSIGN_OR_RETURN(Device device, OpenMixed(rank));
  const StepProgram program = CompileStep(launch.plan, rank, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelShard> shard,
      ModelShard::Create(device, ShardOptionsOf(launch.plan, program, spec.shape, spec.precision)));
  RETURN_IF_ERROR(launch.from.has_value() ? LoadCheckpoint(*launch.from, spec, *shard)
                                          : shard->arena().Initialise(spec.seed));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileWindowSource> files, FileWindowSource::Open(spec));
  MortalWindows windows(*files, rank, fate);
  StepExecutor executor({.spec = spec,
                         .plan = launch.plan,
                         .rank = rank,
                         .loss_scale = launch.from.has_value() ? launch.from->loss_scale : launch.loss_scale,
                         .stall_timeout = absl::Seconds(60),
                         .wishes_to_finish = [&] { return fate.wishes(); }},
                        *shard, transport, windows);
  if (launch.from.has_value()) {
    TrainingSpec copy = spec;
    copy.checkpoint_directory = launch.copies;
    ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                     SaveCheckpoint(copy, {}, launch.from->step, *shard, executor));
    RETURN_IF_ERROR(saved.written);
  }
  const int64_t done = launch.from.has_value() ? launch.from->step : 0;
  fate.Reach(rank, done);
  TrainerReports reports;
  reports.step = [&](int64_t step, const StepOutcome& of_step) {
    if (rank == 0) {
      outcome.losses[step] = of_step.loss;
      outcome.loss_scales[step] = of_step.loss_scale;
    }
    fate.Reach(rank, step);
  };
  if (rank == 0) {
    reports.validation = [&](int64_t step, double loss) { outcome.validations[step] = loss; };
    reports.checkpoint = [&](int64_t step, const std::string&) { outcome.checkpoints.push_back(step); };
  }
  RETURN_IF_ERROR(
      Train({.spec = spec,
             .identity = {.owner = OwnerOf(launch.number), .data_fingerprint = files->data_fingerprint()},
             .done_steps = done},
            *shard, executor, reports)
          .status());
  MutexLock lock(mutex);
  return Add(spec.shape.model, shard->arena(), outcome.state);
}

}  // namespace

std::string Describe(const Interruption& interruption) {
  if (interruption.kind == Interruption::Kind::kNone) return "to its end";
  const std::string after = absl::StrCat(" after step ", interruption.after_step);
  if (interruption.kind == Interruption::Kind::kWish) return absl::StrCat("until a wish", after);
  return absl::StrCat("until operation ", interruption.operation, " of rank ", interruption.rank, after);
}

absl::StatusOr<State> StateOf(const CheckpointManifest& manifest) {
  State state;
  for (SegmentId segment = 0; segment < SegmentCount(manifest.model); ++segment) {
    SegmentValues values(SegmentElements(manifest.model, segment));
    RETURN_IF_ERROR(ReadSegment(manifest, segment,
                                CutSegment(manifest.model, segment, absl::MakeSpan(values.parameters),
                                           absl::MakeSpan(values.m), absl::MakeSpan(values.v))));
    int64_t first = 0;
    for (const ParameterSpec& tensor : SegmentParameters(manifest.model, segment)) {
      for (const Part part : kSavedParts) {
        const auto begin = values.of(part).begin() + first;
        state.of(part)[tensor.name].assign(begin, begin + tensor.elements);
      }
      first += tensor.elements;
    }
  }
  return state;
}

RunOwner OwnerOf(uint64_t launch) { return {.run = "run", .job = "tiny-1", .launch = launch}; }

Outcome Run(const TrainingSpec& spec, const Launch& launch) {
  const int ranks = RankCount(launch.plan);
  LoopbackFabric fabric(ranks);
  Fate fate(launch.interruption, fabric, ranks);
  Outcome outcome;
  outcome.statuses.resize(ranks);
  Mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      MortalTransport transport(
          fabric.Join(rank, PlanPeers(launch.plan,
                                      CompileStep(launch.plan, rank, spec.shape, Purpose::kTrain), spec, {})),
          fate);
      outcome.statuses[rank] = TrainRank(spec, launch, rank, transport, fate, mutex, outcome);
      if (!outcome.statuses[rank].ok()) fabric.MarkGone(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcome.died = fate.struck();
  return outcome;
}

}  // namespace medley

#include "tests/perf/memory_run.h"

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/made_up_windows.h"
#include "runtime/engine/exec/step_executor.h"

namespace medley {
namespace {

constexpr int64_t kSteps = 2;

absl::StatusOr<RankTaken> RunRank(const MemoryCase& of, Rank rank, Bytes limit, Transport& transport) {
  const TrainingSpec& spec = of.spec;
  ASSIGN_OR_RETURN(Device device, of.open(rank, limit));
  const StepProgram program = CompileStep(of.plan, rank, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, ShardOptionsOf(of.plan, program, spec.shape, spec.precision)));
  RankTaken taken{.set_up = device.queue->allocated(), .host = shard->host_allocated()};
  if (!device.emulated) RETURN_IF_ERROR(shard->arena().Initialise(spec.seed));
  MadeUpWindows windows(spec.seed, spec.shape.model.vocabulary);
  StepExecutor executor({.spec = spec, .plan = of.plan, .rank = rank, .stall_timeout = absl::Seconds(60)},
                        *shard, transport, windows);
  for (int64_t step = 1; step <= kSteps; ++step)
    RETURN_IF_ERROR(executor.TrainStep(step, step < kSteps).status());
  taken.ops = device.ops->held();
  taken.peak = device.queue->peak_allocated();
  return taken;
}

}  // namespace

absl::StatusOr<std::vector<RankTaken>> RunForMemory(const MemoryCase& of, const std::vector<Bytes>& limits) {
  const int ranks = RankCount(of.plan);
  LoopbackFabric fabric(ranks);
  std::vector<absl::StatusOr<RankTaken>> results(ranks, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = fabric.Join(rank);
      results[rank] = RunRank(of, rank, limits[rank], *transport);
      if (!results[rank].ok()) fabric.MarkGone(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<RankTaken> taken;
  // Those whose peer has gone say so; who went first has the reason.
  int failed = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    if (results[rank].ok()) {
      taken.push_back(*results[rank]);
    } else if (failed < 0 || absl::IsResourceExhausted(results[rank].status())) {
      failed = rank;
    }
  }
  if (failed >= 0) return Annotate(results[failed].status(), absl::StrCat("rank ", failed));
  return taken;
}

std::vector<RankPredicted> PredictForMemory(const MemoryCase& of, const std::vector<DeviceRoom>& rooms) {
  std::vector<RankPredicted> predicted;
  for (Rank rank = 0; rank < RankCount(of.plan); ++rank) {
    const DeviceRoom& room = rooms[rank];
    RankPredicted& of_rank = predicted.emplace_back();
    of_rank.model = MemoryOfRank(of.plan, rank, of.spec.shape);
    of_rank.workspace = room.WorkspaceFor(of_rank.model.micro_batch_sequences);
    of_rank.copies = room.CopiesOf(of_rank.model.multiplied);
  }
  return predicted;
}

}  // namespace medley

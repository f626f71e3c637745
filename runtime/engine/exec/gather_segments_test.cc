#include "runtime/engine/exec/gather_segments.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <thread>

#include "comm/loopback/loopback_fabric.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/unlike_plans.h"
#include "runtime/ir/program/gradient_slices.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// What every rank does on a thread of its own.
using RankWork = std::function<absl::Status(Rank rank, ParameterArena& arena, Transport& transport)>;

// By rank. `work` gets arenas with made-up values.
std::vector<absl::Status> RunRanks(const Plan& plan, const ModelConfig& model, const RankWork& work) {
  LoopbackFabric fabric(RankCount(plan));
  std::vector<absl::Status> statuses(RankCount(plan));
  std::vector<std::thread> threads;
  const auto run = [&](Rank rank) -> absl::Status {
    ASSIGN_OR_RETURN(Device device,
                     ReferenceBackend().open(
                         {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)}));
    const Unit& unit = plan.units[PlaceOf(plan, rank).unit];
    ASSIGN_OR_RETURN(const std::unique_ptr<ParameterArena> arena,
                     ParameterArena::Create(device, model, unit.chunks, ShareOf(plan, rank, model),
                                            OptimizerShardOf(plan, rank, model).owned));
    RETURN_IF_ERROR(FillWithMadeUp(model, *arena));
    const std::unique_ptr<Transport> transport = fabric.Join(rank);
    const absl::Status status = work(rank, *arena, *transport);
    if (!status.ok()) fabric.MarkGone(rank);
    return status;
  };
  for (Rank rank = 0; rank < RankCount(plan); ++rank)
    threads.emplace_back([&, rank] { statuses[rank] = run(rank); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<ParameterSpec> TensorsOf(const ModelConfig& model, std::optional<SegmentId> segment) {
  return segment.has_value() ? SegmentParameters(model, *segment) : std::vector<ParameterSpec>();
}

TEST_CASE("every segment comes whole to the one rank that writes it, whoever holds which part") {
  const ModelConfig model = ModelsToShare()[GENERATE(0, 1, 2)];
  const NamedPlan named = UnlikePlans(model)[GENERATE(range(0, kUnlikePlans))];
  CAPTURE(FamilyOf(model).name, model.tied_head, named.name);
  const Plan& plan = named.plan;
  Mutex mutex;
  std::map<SegmentId, SegmentValues> gathered;
  std::vector<std::vector<SegmentId>> by(RankCount(plan));  // rank
  const std::vector<absl::Status> statuses =
      RunRanks(plan, model, [&](Rank rank, ParameterArena& arena, Transport& transport) -> absl::Status {
        ActivityBoard board;
        SegmentGather gather(plan, rank, model, arena, transport, board);
        for (int round = 0; round < gather.rounds(); ++round) {
          ASSIGN_OR_RETURN(std::optional<SegmentValues> values, gather.Gather(round));
          const std::optional<SegmentId> segment = gather.SegmentOf(round);
          if (values.has_value() != segment.has_value()) return absl::InternalError("values of no segment");
          if (!segment.has_value()) continue;
          MutexLock lock(mutex);
          by[rank].push_back(*segment);
          if (!gathered.emplace(*segment, *std::move(values)).second)
            return absl::InternalError("a segment twice");
        }
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses) CHECK(status.ToString() == "OK");
  for (Rank rank = 0; rank < RankCount(plan); ++rank) CHECK(by[rank] == SavedSegments(plan, rank, model));
  REQUIRE(gathered.size() == static_cast<size_t>(SegmentCount(model)));
  for (auto& [segment, values] : gathered) {
    CAPTURE(segment.value());
    for (const Part part : kSavedParts) {
      std::vector<float> want(SegmentElements(model, segment));
      for (size_t i = 0; i < want.size(); ++i) want[i] = MadeUpValue(segment, static_cast<int64_t>(i), part);
      CHECK(values.of(part) == want);
    }
  }
}

TEST_CASE("ranks that write at unlike paces wait for each other, and the board says so") {
  const ModelConfig model = ModelsToShare()[0];
  const Plan plan = UnlikePlans(model)[1].plan;  // three ranks
  Mutex mutex;
  ConditionVariable changed;
  std::vector<const ActivityBoard*> boards(3);
  const std::vector<absl::Status> statuses =
      RunRanks(plan, model, [&](Rank rank, ParameterArena& arena, Transport& transport) -> absl::Status {
        ActivityBoard board;
        SegmentGather gather(plan, rank, model, arena, transport, board);
        {
          MutexLock lock(mutex);
          boards[rank] = &board;
          changed.NotifyAll();
        }
        if (rank == 1) {
          // Comes when both of the others wait for it: they have each other's parts.
          MutexLock lock(mutex);
          changed.WaitUntil(mutex, absl::InfiniteFuture(), [&] { return boards[0] && boards[2]; });
          for (const int other : {0, 2}) {
            const auto waits = [&] {
              const std::vector<Activity> running = boards[other]->Running();
              return running.size() == 1 && running[0].peers == std::vector<int>{1};
            };
            while (!waits()) changed.WaitUntil(mutex, Now() + absl::Milliseconds(1), [] { return false; });
            const std::string text = boards[other]->Describe(Now());
            if (text.find("gather segments with rank 1 for ") == std::string::npos)
              return absl::InternalError(text);
          }
        }
        for (int round = 0; round < gather.rounds(); ++round) RETURN_IF_ERROR(gather.Gather(round).status());
        if (!board.Running().empty()) return absl::InternalError("still on the board");
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses) CHECK(status.ToString() == "OK");
}

TEST_CASE("a rank of the unit that is gone ends the gathering of the others, and is named") {
  const ModelConfig model = ModelsToShare()[GENERATE(0, 1)];
  const Plan plan = UnlikePlans(model)[1].plan;  // three ranks
  const int gone = GENERATE(0, 1, 2), at_round = GENERATE(0, 1);
  CAPTURE(gone, at_round);
  std::vector<char> gathers(3, false);  // whether others give a rank anything once the one has gone
  const std::vector<absl::Status> statuses =
      RunRanks(plan, model, [&](Rank rank, ParameterArena& arena, Transport& transport) -> absl::Status {
        ActivityBoard board;
        SegmentGather gather(plan, rank, model, arena, transport, board);
        for (int round = at_round; round < gather.rounds(); ++round) {
          for (const ParameterSpec& tensor : TensorsOf(model, gather.SegmentOf(round)))
            gathers[rank] |= tensor.cut != TensorCut::kNone;
        }
        for (int round = 0; round < gather.rounds(); ++round) {
          if (rank == gone && round == at_round) return absl::DataLossError("dies");
          RETURN_IF_ERROR(gather.Gather(round).status());
        }
        return absl::OkStatus();
      });
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank == gone) continue;
    CAPTURE(rank.value(), statuses[rank].ToString());
    if (!gathers[rank] && statuses[rank].ok()) continue;  // what it gave went out before it knew
    CHECK(absl::IsUnavailable(statuses[rank]));
    CHECK_THAT(std::string(statuses[rank].message()),
               Catch::Contains("gathering segments with rank ") && Catch::Contains("is gone"));
  }
}

TEST_CASE("what is not held, or is of another size, is not read") {
  const ModelConfig model = ModelsToShare()[0];
  const Plan plan = UnlikePlans(model)[2].plan;  // the block is the first two ranks'
  const std::vector<absl::Status> statuses =
      RunRanks(plan, model, [&](Rank rank, ParameterArena& arena, Transport&) {
        std::vector<float> values(SegmentElements(arena.config(), SegmentOfBlock(1)));
        if (rank < 2) {
          if (!arena.ReadSegment(Part::kParameter, SegmentOfBlock(1), absl::MakeSpan(values)).ok())
            return absl::InternalError("cannot be read");
          values.resize(values.size() + 1);
        }
        return arena.ReadSegment(Part::kParameter, SegmentOfBlock(1), absl::MakeSpan(values));
      });
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    CAPTURE(rank.value());
    CHECK((rank < 2 ? absl::IsInvalidArgument(statuses[rank]) : absl::IsNotFound(statuses[rank])));
  }
}

}  // namespace
}  // namespace medley

#include "coordinator/planner/techniques/stage_buffers.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/techniques/memory_saving.h"

namespace medley {
namespace {

std::vector<int> Numbers(const BufferCounts& buffers) {
  std::vector<int> numbers = {buffers.recomputed,     buffers.stream_gradient, buffers.input,  buffers.output,
                              buffers.input_gradient, buffers.output_gradient, buffers.windows};
  for (const auto* of_chunks :
       {&buffers.stash, &buffers.leaving_stash, &buffers.deferred, &buffers.stash_home})
    numbers.insert(numbers.end(), of_chunks->begin(), of_chunks->end());
  return numbers;
}

TEST_CASE("what many micro-batches take follows from what two more than a few take", "[property]") {
  const Schedule schedule = GENERATE(from_range(std::begin(kPlannedSchedules), std::end(kPlannedSchedules)));
  const int from_end = GENERATE(1, 2, 3, 5, 9);
  const bool first = GENERATE(true, false);
  CAPTURE(schedule, from_end, first);
  for (const Recompute recompute : kRecomputesByTime) {
    for (const int windows : {0, kFewestWindows, kFewestWindows + 2}) {
      for (const Dtype before : {Dtype::kF32, Dtype::kBf16}) {
        CAPTURE(recompute, windows, before);
        PipelineStage stage{.schedule = schedule,
                            .first = first,
                            .from_end = from_end,
                            .before = before,
                            .recompute = recompute,
                            .windows = windows};
        stage.micro_batches = SettledMicroBatches(stage);
        const int settled_count = stage.micro_batches;
        const BufferCounts settled = CompileStage(stage);
        ++stage.micro_batches;
        const BufferCounts next = CompileStage(stage);
        for (const int more : {0, 1, 2, 3, 4, 5, 8, 13, 60}) {
          CAPTURE(more);
          stage.micro_batches = settled_count + more;
          CHECK(Numbers(WithMore(settled, next, more)) == Numbers(CompileStage(stage)));
          CHECK(Numbers(StageBuffers().Of(stage)) == Numbers(CompileStage(stage)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace medley

#include "coordinator/predictor/memory_use.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Buffers that begin to be in use at a moment, less those that end to be.
struct Change {
  double at_seconds = 0;
  Bytes activations, boundaries;
};

class Changes {
 public:
  Changes(const Plan& plan, const StepProgram& program, const TrainingShape& shape)
      : plan_(plan), program_(program), shape_(shape) {}

  void Add(double at_seconds, const BufferId& buffer, int64_t sign) {
    // Neither is a micro-batch's on the device.
    if (buffer.kind == BufferKind::kStashHome || IsWindow(buffer.kind)) return;
    Change& change = changes_.emplace_back();
    change.at_seconds = at_seconds;
    (Travels(buffer.kind) ? change.boundaries : change.activations) = sign * SizeOf(buffer);
  }

  std::vector<Change> Sorted() && {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.at_seconds < b.at_seconds; });
    return std::move(changes_);
  }

 private:
  Bytes SizeOf(const BufferId& buffer) {
    const int chunk = IsOfChunk(buffer.kind) ? buffer.chunk : 0;
    const auto [size, is_new] = sizes_.try_emplace({buffer.kind, chunk});
    if (is_new) size->second = BufferBytes(plan_, program_, shape_, {.kind = buffer.kind, .chunk = chunk});
    return size->second;
  }

  const Plan& plan_;
  const StepProgram& program_;
  const TrainingShape& shape_;
  std::map<std::pair<BufferKind, int>, Bytes> sizes_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<MemoryUse> MemoryUseOf(const Plan& plan, const StepProgram& program,
                                   absl::Span<const InstructionTime> timeline, const TrainingShape& shape) {
  Changes changes(plan, program, shape);
  std::set<std::tuple<BufferKind, int, int>> used;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const Operand& operand : program.instructions[i].operands) {
      if (operand.buffer.index < 0) continue;
      const bool is_first =
          used.emplace(operand.buffer.kind, operand.buffer.chunk, operand.buffer.index).second;
      // It was filled in the step before (Instruction::next_step).
      if (is_first && !operand.fills) changes.Add(0, operand.buffer, 1);
      if (operand.fills) changes.Add(timeline[i].start_seconds, operand.buffer, 1);
      if (operand.releases) changes.Add(timeline[i].end_seconds, operand.buffer, -1);
    }
  }
  std::vector<MemoryUse> uses(1);
  const std::vector<Change> sorted = std::move(changes).Sorted();
  for (size_t next = 0; next < sorted.size();) {
    MemoryUse use = uses.back();
    use.from_seconds = sorted[next].at_seconds;
    for (; next < sorted.size() && sorted[next].at_seconds == use.from_seconds; ++next) {
      use.activations += sorted[next].activations;
      use.boundaries += sorted[next].boundaries;
    }
    MemoryUse& last = uses.back();
    if (use.from_seconds == last.from_seconds) {
      last = use;
    } else if (use.activations != last.activations || use.boundaries != last.boundaries) {
      uses.push_back(use);
    }
  }
  return uses;
}

}  // namespace medley

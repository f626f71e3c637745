#include "runtime/ir/program/assign_buffers.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace medley {
namespace {

constexpr std::array<int, kStreams> NoInstructions() {
  std::array<int, kStreams> none{};
  none.fill(-1);
  return none;
}

struct Content {
  int buffer = -1;
  int written_by = -1;                                   // instruction, the last so far
  uint32_t known_to = 0;                                 // streams, a bit each, that come after that already
  std::array<int, kStreams> read_by = NoInstructions();  // since then, the last of each stream
};

// The buffers of one kind.
struct Pool {
  std::vector<Content> contents;
  std::vector<int> released_by;  // of each buffer: the instruction that last did, or -1
  // In the order in which they became so; those before `taken` are not any more.
  std::vector<int> free;
  size_t taken = 0;
  int returning = -1;  // a buffer that is free once the next one has been filled
};

class Assignment {
 public:
  explicit Assignment(std::vector<Instruction>& instructions) : instructions_(instructions) {}

  BufferCounts Run() {
    for (int i = 0; i < static_cast<int>(instructions_.size()); ++i) {
      for (Operand& operand : instructions_[i].operands) {
        if (operand.buffer.index >= 0 && !IsWindow(operand.buffer.kind)) Use(i, operand);
      }
    }
    BufferCounts counts;
    counts.stash.resize(pools_.size());
    counts.leaving_stash.resize(pools_.size());
    counts.deferred.resize(pools_.size());
    counts.stash_home.resize(pools_.size());
    for (size_t chunk = 0; chunk < pools_.size(); ++chunk) {
      for (int kind = 0; kind < kBufferKinds; ++kind) {
        if (chunk > 0 && !IsOfChunk(static_cast<BufferKind>(kind))) continue;
        if (IsWindow(static_cast<BufferKind>(kind))) continue;
        counts.of(static_cast<BufferKind>(kind), static_cast<int>(chunk)) =
            static_cast<int>(pools_[chunk][kind].released_by.size());
      }
    }
    return counts;
  }

 private:
  void Use(int i, Operand& operand) {
    Pool& pool = PoolOf(operand.buffer);
    if (pool.contents.empty()) pool.contents.reserve(instructions_.size() / 2);
    if (operand.buffer.index >= static_cast<int>(pool.contents.size()))
      pool.contents.resize(operand.buffer.index + 1);
    Content& content = pool.contents[operand.buffer.index];
    if (operand.fills) {
      content.buffer = Take(pool);
      WaitFor(i, pool.released_by[content.buffer]);
    }
    const int stream = static_cast<int>(instructions_[i].stream);
    const uint32_t bit = 1u << stream;
    if (!operand.fills && (content.known_to & bit) == 0) WaitFor(i, content.written_by);
    content.known_to |= bit;
    const bool writes = operand.fills || operand.writes;
    if (writes || operand.releases) {
      for (const int reader : content.read_by) WaitFor(i, reader);
    }
    if (writes) {
      content.written_by = i;
      content.known_to = bit;
      content.read_by = NoInstructions();
    } else {
      content.read_by[stream] = i;
    }
    operand.buffer.index = content.buffer;
    if (!operand.releases) return;
    pool.released_by[content.buffer] = i;
    if (Travels(operand.buffer.kind) || instructions_[i].stream == Stream::kStore) {
      Return(pool);
      pool.returning = content.buffer;
    } else {
      pool.free.push_back(content.buffer);
    }
  }

  Pool& PoolOf(const BufferId& buffer) {
    if (static_cast<int>(pools_.size()) <= buffer.chunk) pools_.resize(buffer.chunk + 1);
    return pools_[buffer.chunk][static_cast<int>(buffer.kind)];
  }

  static int Take(Pool& pool) {
    if (pool.taken == pool.free.size()) {
      pool.free.push_back(static_cast<int>(pool.released_by.size()));
      pool.released_by.push_back(-1);
    }
    const int buffer = pool.free[pool.taken++];
    Return(pool);
    return buffer;
  }

  static void Return(Pool& pool) {
    if (pool.returning >= 0) pool.free.push_back(pool.returning);
    pool.returning = -1;
  }

  void WaitFor(int i, int other) {
    if (other >= 0 && instructions_[other].stream != instructions_[i].stream) instructions_[i].WaitFor(other);
  }

  std::vector<Instruction>& instructions_;
  // By chunk; those that are not a chunk's are with the first one's.
  std::vector<std::array<Pool, kBufferKinds>> pools_ = std::vector<std::array<Pool, kBufferKinds>>(1);
};

}  // namespace

BufferCounts AssignBuffers(std::vector<Instruction>& instructions) { return Assignment(instructions).Run(); }

}  // namespace medley

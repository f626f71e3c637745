#include "runtime/device/copy_lane_program.h"

#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kBuffers = 3, kLanes = 2;

absl::Span<const std::byte> AsBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

bool SameBits(absl::Span<const std::byte> got, const std::vector<float>& expected) {
  return std::memcmp(got.data(), expected.data(), got.size()) == 0;
}

// A copy under way: its host memory, and for a download what must arrive in it.
struct Copy {
  std::unique_ptr<PinnedMemory> memory;
  std::vector<float> expected;
  int lane;  // kLanes: the queue
  Fence fence;
};

class OrderedRun {
 public:
  explicit OrderedRun(const LaneProgram& program) : program_(program), random_(program.seed) {}

  absl::Status Run() {
    for (int i = 0; i < kLanes; ++i) {
      ASSIGN_OR_RETURN(lanes_.emplace_back(), program_.queue.OpenCopyLane());
    }
    for (int i = 0; i < kBuffers; ++i) {
      ASSIGN_OR_RETURN(buffers_.emplace_back(), program_.queue.Allocate({program_.elements * 4}));
      model_.emplace_back(program_.elements);
      used_.push_back({});
    }
    for (int action = 0; action < program_.actions; ++action) RETURN_IF_ERROR(Act(action));
    while (!copies_.empty()) RETURN_IF_ERROR(FinishOldest());
    return absl::OkStatus();
  }

 private:
  struct Use {
    bool pending = false;
    Fence fence;
  };

  absl::Status Act(int action) {
    const int at = static_cast<int>(random_() % kBuffers), other = (at + 1) % kBuffers;
    const int lane = static_cast<int>(random_() % kLanes);
    switch (random_() % 8) {
      case 0:
      case 1:
        return Annotate(Upload(at, lane), absl::StrCat("action ", action));
      case 2:
      case 3:
        return Annotate(Download(at, lane), absl::StrCat("action ", action));
      case 4:
        return Annotate(Download(at, kLanes), absl::StrCat("action ", action));
      case 5:
        return copies_.empty() ? absl::OkStatus() : Annotate(FinishOldest(), absl::StrCat("action ", action));
      default: {
        RETURN_IF_ERROR(OrderQueueAfterLanes(at));
        RETURN_IF_ERROR(OrderQueueAfterLanes(other));
        const int64_t count = 1 + random_() % program_.elements,
                      first = random_() % (program_.elements - count + 1);
        RETURN_IF_ERROR(
            program_.add({buffers_[other].get(), first * 4, count}, {buffers_[at].get(), first * 4, count}));
        for (int64_t i = first; i < first + count; ++i) model_[at][i] = model_[other][i] + model_[at][i];
        return absl::OkStatus();
      }
    }
  }

  // What the queue does next with `buffer` comes after what lanes did with it.
  absl::Status OrderQueueAfterLanes(int buffer) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!std::exchange(used_[buffer][lane].pending, false)) continue;
      RETURN_IF_ERROR(program_.queue.AwaitLane(*lanes_[lane], used_[buffer][lane].fence));
    }
    return absl::OkStatus();
  }

  absl::Status Upload(int buffer, int lane) {
    RETURN_IF_ERROR(OrderQueueAfterLanes(buffer));
    RETURN_IF_ERROR(lanes_[lane]->AwaitQueue(program_.queue.Record()));
    const int64_t count = 1 + random_() % program_.elements,
                  first = random_() % (program_.elements - count + 1);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random_() % 8);
    ASSIGN_OR_RETURN(std::unique_ptr<PinnedMemory> memory, lanes_[lane]->AllocatePinned({count * 4}));
    std::memcpy(memory->bytes().data(), values.data(), memory->bytes().size());
    RETURN_IF_ERROR(lanes_[lane]->Upload(memory->bytes(), *buffers_[buffer], {first * 4}));
    std::copy(values.begin(), values.end(), model_[buffer].begin() + first);
    return Remember(buffer, {std::move(memory), {}, lane});
  }

  absl::Status Download(int buffer, int lane) {
    RETURN_IF_ERROR(OrderQueueAfterLanes(buffer));
    const int64_t count = 1 + random_() % program_.elements,
                  first = random_() % (program_.elements - count + 1);
    ASSIGN_OR_RETURN(std::unique_ptr<PinnedMemory> memory, lanes_[0]->AllocatePinned({count * 4}));
    std::memset(memory->bytes().data(), 0x5a, memory->bytes().size());
    if (lane == kLanes) {
      RETURN_IF_ERROR(program_.queue.Download(*buffers_[buffer], {first * 4}, memory->bytes()));
    } else {
      RETURN_IF_ERROR(lanes_[lane]->AwaitQueue(program_.queue.Record()));
      RETURN_IF_ERROR(lanes_[lane]->Download(*buffers_[buffer], {first * 4}, memory->bytes()));
    }
    std::vector<float> expected(model_[buffer].begin() + first, model_[buffer].begin() + first + count);
    return Remember(buffer, {std::move(memory), std::move(expected), lane});
  }

  absl::Status Remember(int buffer, Copy copy) {
    if (copy.lane == kLanes) {
      copy.fence = program_.queue.Record();
    } else {
      copy.fence = lanes_[copy.lane]->Record();
      used_[buffer][copy.lane] = {true, copy.fence};
    }
    copies_.push_back(std::move(copy));
    return absl::OkStatus();
  }

  absl::Status FinishOldest() {
    const Copy& copy = copies_.front();
    RETURN_IF_ERROR(copy.lane == kLanes ? program_.queue.Wait(copy.fence)
                                        : lanes_[copy.lane]->Wait(copy.fence));
    const bool arrived = copy.expected.empty() || SameBits(copy.memory->bytes(), copy.expected);
    copies_.pop_front();
    return arrived ? absl::OkStatus() : absl::InternalError("a download has not what the order asks for");
  }

  const LaneProgram& program_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::vector<float>> model_;
  std::vector<std::array<Use, kLanes>> used_;  // by buffer, lane: last, unless the queue waits for it already
  std::deque<Copy> copies_;
  std::vector<std::unique_ptr<CopyLane>> lanes_;  // gone first: they wait for the copies
};

// A lane's half of RunAllAtOnce: there and back through a buffer of its own.
absl::Status CopyBothWays(CopyLane& lane, Buffer& buffer, const LaneProgram& program, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Bytes size{program.elements * 4};
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> out, lane.AllocatePinned(size));
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> back, lane.AllocatePinned(size));
  for (int round = 0; round < program.actions; ++round) {
    for (std::byte& byte : out->bytes()) byte = static_cast<std::byte>(random());
    RETURN_IF_ERROR(lane.Upload(out->bytes(), buffer, {0}));
    RETURN_IF_ERROR(lane.Download(buffer, {0}, back->bytes()));
    RETURN_IF_ERROR(lane.Wait(lane.Record()));
    if (std::memcmp(out->bytes().data(), back->bytes().data(), out->bytes().size()) != 0) {
      return absl::InternalError(absl::StrCat("round ", round, ": came back changed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOrderedByFences(const LaneProgram& program) { return OrderedRun(program).Run(); }

absl::Status RunAllAtOnce(const LaneProgram& program) {
  DeviceQueue& queue = program.queue;
  std::vector<float> ones(program.elements, 1.0f), sums(program.elements);
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> x, queue.Allocate({program.elements * 4}));
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> y, queue.Allocate({program.elements * 4}));
  RETURN_IF_ERROR(queue.Upload(AsBytes(ones), *x, {0}));
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<CopyLane>> lanes;
  for (int i = 0; i < kLanes; ++i) {
    ASSIGN_OR_RETURN(buffers.emplace_back(), queue.Allocate({program.elements * 4}));
    ASSIGN_OR_RETURN(lanes.emplace_back(), queue.OpenCopyLane());
    RETURN_IF_ERROR(lanes.back()->AwaitQueue(queue.Record()));  // the buffer's zeroes
  }
  std::vector<absl::Status> statuses(kLanes);
  std::vector<std::thread> threads;
  for (int i = 0; i < kLanes; ++i) {
    threads.emplace_back(
        [&, i] { statuses[i] = CopyBothWays(*lanes[i], *buffers[i], program, program.seed + i); });
  }
  absl::Status added;
  for (int i = 0; i < program.actions && added.ok(); ++i) {
    added = program.add({x.get(), 0, program.elements}, {y.get(), 0, program.elements});
    queue.Record();
  }
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(added);
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(
      queue.Download(*y, {0}, {reinterpret_cast<std::byte*>(sums.data()), sums.size() * sizeof(float)}));
  RETURN_IF_ERROR(queue.Wait(queue.Record()));
  if (sums == std::vector<float>(program.elements, static_cast<float>(program.actions)))
    return absl::OkStatus();
  return absl::InternalError("the queue's own work came out wrong");
}

}  // namespace medley

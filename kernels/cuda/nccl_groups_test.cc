#include "kernels/cuda/nccl_groups.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "kernels/cuda/simulated_driver.h"
#include "kernels/cuda/simulated_nccl.h"
#include "runtime/base/narrow.h"

namespace medley {
namespace {

// A GPU of a group, with a buffer of some values.
struct Member {
  std::unique_ptr<CudaQueue> queue;
  std::unique_ptr<NcclGroups> groups;
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<DeviceGroup> group;

  Slice values() const { return {buffer.get(), 0, buffer->size().value / 4}; }
  void Fill(const std::vector<float>& from) {
    REQUIRE(
        queue->Upload({reinterpret_cast<const std::byte*>(from.data()), from.size() * 4}, *buffer, {0}).ok());
  }
  std::vector<float> Read() {
    std::vector<float> to(static_cast<size_t>(values().elements));
    REQUIRE(queue->Download(*buffer, {0}, {reinterpret_cast<std::byte*>(to.data()), to.size() * 4}).ok());
    REQUIRE(queue->Wait(queue->Record()).ok());
    return to;
  }
};

std::vector<Member> OpenMembers(uint64_t seed, int count, int64_t elements) {
  const CudaDriver& driver = simulated::Start(seed);
  const NcclLibrary& library = simulated::StartNccl();
  std::vector<Member> members(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    Member& member = members[static_cast<size_t>(i)];
    member.queue = *CudaQueue::Create(*CudaDevice::Open(driver, i), MiB(64));
    member.groups = std::make_unique<NcclGroups>(*member.queue, library);
    member.buffer = *member.queue->Allocate({elements * 4});
  }
  return members;
}

void JoinAll(std::vector<Member>& members) {
  const std::string id = *members[0].groups->MakeId();
  for (size_t i = 0; i < members.size(); ++i) {
    auto joined = members[i].groups->Join(id, static_cast<int>(i), static_cast<int>(members.size()));
    REQUIRE(joined.ok());
    members[i].group = *std::move(joined);
    if (i + 1 < members.size()) CHECK(*members[i].group->Done() == false);
  }
  for (Member& member : members) REQUIRE(*member.group->Done());
}

TEST_CASE("members sum what each had when its queue reached the fence, and its queue then has the sums",
          "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    std::vector<Member> members = OpenMembers(seed, 3, 4);
    JoinAll(members);
    for (int sum = 1; sum <= 3; ++sum) {
      for (size_t i = 0; i < members.size(); ++i) {
        const float value = static_cast<float>(sum) * (i == 0 ? 1.0f : i == 1 ? 10.0f : 100.0f);
        members[i].Fill({value, value, -value, 0});
        REQUIRE(members[i].group->Sum(members[i].values(), members[i].queue->Record()).ok());
      }
      for (Member& member : members) {
        while (!*member.group->Done()) {
        }
        const float total = 111.0f * static_cast<float>(sum);
        CHECK(member.Read() == std::vector<float>{total, total, -total, 0});
      }
    }
    CHECK(simulated::AbortedCommunicators() == 0);
    members.clear();
    CHECK(simulated::LiveCommunicators() == 0);
  }
}

// Submits to every member in turn, as far as the library takes it.
void ExchangeAll(
    std::vector<Member>& members,
    const std::function<absl::Status(DeviceGroup& group, const Slice& values, Fence after)>& exchange,
    Dtype dtype) {
  for (Member& member : members) {
    Slice values = member.values();
    values.dtype = dtype;
    values.elements = values.elements * 4 / SizeOf(dtype).value;
    REQUIRE(exchange(*member.group, values, member.queue->Record()).ok());
    absl::StatusOr<bool> holds = false;
    while (holds.ok() && !*holds) holds = member.group->HoldQueue();
    REQUIRE(holds.ok());
  }
}

TEST_CASE("what the queue is given next finds what was exchanged, though nobody waits, in parts of any sizes",
          "[property]") {
  const std::vector<int64_t> ends = GENERATE(values<std::vector<int64_t>>({{2, 4, 6}, {3, 5, 6}, {1, 1, 6}}));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed, ends[0], ends[1]);
    std::vector<Member> members = OpenMembers(seed, 3, 6);
    JoinAll(members);
    for (size_t m = 0; m < members.size(); ++m) {
      std::vector<float> own(6);
      for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<float>((m + 1) * 10 + i);
      members[m].Fill(own);
    }
    // Each element becomes the sum of the members', at the one whose part it is, and then at all; and those of all sums
    // are three times as much.
    ExchangeAll(
        members,
        [&](DeviceGroup& group, const Slice& x, Fence after) { return group.Scatter(x, ends, after); },
        Dtype::kF32);
    ExchangeAll(
        members,
        [&](DeviceGroup& group, const Slice& x, Fence after) { return group.Gather(x, ends, after); },
        Dtype::kF32);
    ExchangeAll(
        members, [](DeviceGroup& group, const Slice& x, Fence after) { return group.Sum(x, after); },
        Dtype::kF32);
    for (Member& member : members) CHECK(member.Read() == std::vector<float>{180, 189, 198, 207, 216, 225});
    for (Member& member : members) CHECK(*member.group->Done());
    CHECK(simulated::AbortedCommunicators() == 0);
  }
  const simulated::SubmittedCalls calls = simulated::Submitted();
  CHECK(calls.all_reduces == 3);
  const bool is_even = ends[0] == 2;
  const int nonempty = static_cast<int>(std::set<int64_t>(ends.begin(), ends.end()).size());
  CHECK(calls.all_gathers == (is_even ? 3 : 0));
  CHECK(calls.reduce_scatters == (is_even ? 3 : 0));
  CHECK(calls.broadcasts == (is_even ? 0 : 3 * nonempty));
  CHECK(calls.reduces == (is_even ? 0 : 3 * nonempty));
}

TEST_CASE("narrow types are exchanged as they are stored") {
  const Dtype dtype = GENERATE(Dtype::kBf16, Dtype::kF16);
  std::vector<Member> members = OpenMembers(1, 2, 3);
  JoinAll(members);
  const auto narrow = [&](float x) { return ToNarrow(x, dtype); };
  // Six numbers each, two of which share the bits of a float.
  const auto packed = [](const std::vector<uint16_t>& bits) {
    std::vector<float> floats(bits.size() / 2);
    std::memcpy(floats.data(), bits.data(), bits.size() * 2);
    return floats;
  };
  const auto read = [](Member& member) {
    const std::vector<float> floats = member.Read();
    std::vector<uint16_t> bits(floats.size() * 2);
    std::memcpy(bits.data(), floats.data(), bits.size() * 2);
    return bits;
  };
  std::vector<uint16_t> first, second, sums;
  for (int i = 0; i < 6; ++i) {
    first.push_back(narrow(0.5f + static_cast<float>(i)));
    second.push_back(narrow(1.0f / static_cast<float>(3 + i)));
    sums.push_back(narrow(FromNarrow(first.back(), dtype) + FromNarrow(second.back(), dtype)));
  }
  members[0].Fill(packed(first));
  members[1].Fill(packed(second));
  ExchangeAll(
      members, [](DeviceGroup& group, const Slice& x, Fence after) { return group.Sum(x, after); }, dtype);
  for (Member& member : members) CHECK(read(member) == sums);
}

TEST_CASE("types that are none of activations are refused") {
  std::vector<Member> members = OpenMembers(1, 2, 4);
  JoinAll(members);
  Slice values = members[0].values();
  values.dtype = Dtype::kI32;
  CHECK(absl::IsInvalidArgument(members[0].group->Sum(values, members[0].queue->Record())));
  CHECK(*members[0].group->Done());
}

TEST_CASE(
    "a group is given nothing before the library has taken what it was given, and needs no memory for an "
    "empty one") {
  std::vector<Member> members = OpenMembers(1, 2, 4);
  JoinAll(members);
  const Fence fence = members[0].queue->Record();
  REQUIRE(members[0].group->Sum(members[0].values(), fence).ok());
  CHECK(absl::IsFailedPrecondition(members[0].group->Sum(members[0].values(), fence)));
  REQUIRE(members[1].group->Sum(members[1].values(), members[1].queue->Record()).ok());
  for (Member& member : members) {
    while (!*member.group->Done()) {
    }
    REQUIRE(member.group->Sum({}, member.queue->Record()).ok());
    while (!*member.group->Done()) {
    }
  }
}

TEST_CASE("who waits for a member that hangs can abort, and destroy the group") {
  std::vector<Member> members = OpenMembers(1, 2, 4);
  simulated::HangSums(1);
  JoinAll(members);
  for (Member& member : members) REQUIRE(member.group->Sum(member.values(), member.queue->Record()).ok());
  for (int i = 0; i < 100; ++i) CHECK_FALSE(*members[0].group->Done());
  members[0].group->Abort();
  CHECK(absl::IsCancelled(members[0].group->Done().status()));
  CHECK(absl::IsCancelled(members[0].group->Sum(members[0].values(), members[0].queue->Record())));
  members.clear();  // the other is destroyed while it is at work
  CHECK(simulated::AbortedCommunicators() == 2);
  CHECK(simulated::LiveCommunicators() == 0);
}

TEST_CASE("errors of the library have its words") {
  std::vector<Member> members = OpenMembers(1, 2, 4);
  SECTION("when a member joins") {
    simulated::FailJoining(1);
    const absl::Status status = members[1].groups->Join(*members[0].groups->MakeId(), 1, 2).status();
    CHECK(status.message() == "joining a group of GPUs: unhandled system error: it was asked to fail");
  }
  SECTION("when it sums; the group is then aborted, and says the same again") {
    simulated::FailSums(1);
    JoinAll(members);
    REQUIRE(members[1].group->Sum(members[1].values(), members[1].queue->Record()).ok());
    for (int i = 0; i < 2; ++i) {
      CHECK(members[1].group->Done().status().message() ==
            "exchanging in a group of GPUs: remote process exited: it was asked to fail");
    }
    CHECK(simulated::AbortedCommunicators() == 1);
  }
  SECTION("of an id that it did not make") {
    CHECK(absl::IsInvalidArgument(members[0].groups->Join("id", 0, 2).status()));
  }
}

TEST_CASE("devices and releases can be told apart") {
  std::vector<Member> members = OpenMembers(1, 2, 4);
  CHECK(members[0].groups->name() == "NCCL 2.14.3");
  CHECK(members[0].groups->device() != members[1].groups->device());
  CHECK(absl::IsUnavailable(members[0].queue->groups().status()));
}

}  // namespace
}  // namespace medley

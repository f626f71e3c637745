#include "kernels/cuda/nccl_groups.h"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/cuda/simulated_driver.h"
#include "kernels/cuda/simulated_nccl.h"

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

TEST_CASE("a group has one sum at a time, and needs no memory for an empty one") {
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
            "summing in a group of GPUs: remote process exited: it was asked to fail");
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

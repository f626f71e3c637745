#include "comm/group/join_group.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

// Groups of more members than exchange all with all, of a library that is made up.
namespace medley {
namespace {

constexpr int kMembers = 20;

// Who has come, at all members.
class Meeting {
 public:
  void Come(int member) {
    MutexLock lock(mutex_);
    here_.insert(member);
  }
  bool AreAllHere() {
    MutexLock lock(mutex_);
    return here_.size() == kMembers;
  }

 private:
  Mutex mutex_;
  std::set<int> here_;
};

class MadeUpGroup final : public DeviceGroup {
 public:
  MadeUpGroup(Meeting& meeting, bool& is_aborted) : meeting_(meeting), is_aborted_(is_aborted) {}
  absl::Status Sum(const Slice&, Fence) override { return absl::UnimplementedError("nothing is summed"); }
  absl::Status Gather(const Slice&, absl::Span<const int64_t>, Fence) override { return Sum({}, {}); }
  absl::Status Scatter(const Slice&, absl::Span<const int64_t>, Fence) override { return Sum({}, {}); }
  absl::StatusOr<bool> HoldQueue() override { return true; }
  absl::StatusOr<bool> Done() override { return meeting_.AreAllHere(); }
  void Abort() override { is_aborted_ = true; }

 private:
  Meeting& meeting_;
  bool& is_aborted_;
};

class MadeUpLibrary final : public GroupLibrary {
 public:
  MadeUpLibrary(Meeting& meeting, bool fails) : meeting_(meeting), fails_(fails) {}
  std::string name() const override { return "made up"; }
  std::string device() const override { return "device"; }
  absl::StatusOr<std::string> MakeId() override { return "the id"; }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id, int member, int members) override {
    if (id != "the id" || members != kMembers) return absl::InternalError("another group");
    if (fails_) return absl::ResourceExhaustedError("no memory for it");
    meeting_.Come(member);
    return std::make_unique<MadeUpGroup>(meeting_, is_aborted_);
  }
  bool is_aborted() const { return is_aborted_; }

 private:
  Meeting& meeting_;
  const bool fails_;
  bool is_aborted_ = false;
};

struct Joining {
  absl::Status status;
  std::string failure;
  bool has_group = false, is_aborted = false;
};

// Members, ranks 0, 2, 4, ..., join; `failing` cannot, and `gone` does not come.
std::vector<Joining> JoinAll(const std::set<int>& failing, int gone = -1) {
  LoopbackFabric fabric(2 * kMembers);
  Meeting meeting;
  std::vector<int> members;
  for (int i = 0; i < kMembers; ++i) members.push_back(2 * i);
  std::vector<Joining> all(kMembers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Transport> transport = fabric.Join(members[i]);
      if (i == gone) return fabric.MarkGone(members[i]);
      MadeUpLibrary library(meeting, failing.contains(i));
      absl::StatusOr<JoinedGroup> joined = JoinGroup(*transport, library, members, Now() + absl::Seconds(60));
      all[i].status = joined.status();
      if (!joined.ok()) return fabric.MarkGone(members[i]);  // as a worker that gives up
      all[i].failure = joined->failure;
      all[i].has_group = joined->group != nullptr;
      joined->group.reset();
      all[i].is_aborted = library.is_aborted();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

TEST_CASE("many members come together") {
  for (const Joining& one : JoinAll({})) {
    CHECK(one.status.ToString() == "OK");
    CHECK(one.has_group);
    CHECK(one.failure.empty());
  }
}

TEST_CASE("where one of many cannot join none does, and all say the same") {
  // A leaf, one of those that gather, the first, and several.
  const std::set<int> failing =
      GENERATE(std::set<int>{19}, std::set<int>{8}, std::set<int>{0}, std::set<int>{3, 12, 17});
  CAPTURE(failing);
  const std::vector<Joining> all = JoinAll(failing);
  for (int i = 0; i < kMembers; ++i) {
    CAPTURE(i);
    CHECK(all[i].status.ToString() == "OK");
    CHECK_FALSE(all[i].has_group);
    CHECK(all[i].is_aborted == !failing.contains(i));
    CHECK(all[i].failure ==
          "rank " + std::to_string(2 * *failing.begin()) + " cannot join: no memory for it");
  }
}

TEST_CASE("one of many that is gone ends it for all") {
  const int gone = GENERATE(0, 5, 8, 19);
  CAPTURE(gone);
  const std::vector<Joining> all = JoinAll({}, gone);
  for (int i = 0; i < kMembers; ++i) {
    if (i != gone) CHECK(absl::IsUnavailable(all[i].status));
  }
}

}  // namespace
}  // namespace medley

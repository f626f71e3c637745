#include "coordinator/store/scheduled_backups.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <future>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

TEST_CASE("a backup is due when the newest is so old, whatever the clock was set to meanwhile") {
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  const absl::Duration every = absl::Hours(24);
  CHECK(UntilNextBackup(std::nullopt, now, every) == absl::ZeroDuration());
  CHECK(UntilNextBackup(now, now, every) == every);
  CHECK(UntilNextBackup(now - absl::Hours(9), now, every) == absl::Hours(15));
  CHECK(UntilNextBackup(now - every, now, every) == absl::ZeroDuration());
  CHECK(UntilNextBackup(now - absl::Hours(100), now, every) == absl::ZeroDuration());
  CHECK(UntilNextBackup(now + absl::Hours(100), now, every) == every);
}

TEST_CASE("the first backup is made at once, and a restart makes none before its time") {
  const TemporaryDirectory state, elsewhere;
  const auto store = OpenStore(state);
  const BackupSchedule schedule{.directory = elsewhere.File("backups"), .every = absl::Hours(24), .keep = 7};
  {
    std::promise<absl::StatusOr<std::string>> told;
    const ScheduledBackups backups(*store, schedule,
                                   [&](const absl::StatusOr<std::string>& made) { told.set_value(made); });
    const absl::StatusOr<std::string> file = told.get_future().get();
    INFO(file.status());
    REQUIRE(file.ok());
    REQUIRE(std::filesystem::exists(*file));
    REQUIRE(backups.newest().has_value());
    CHECK(absl::Now() - *backups.newest() < absl::Hours(1));
    CHECK(backups.every() == absl::Hours(24));
  }
  int made = 0;
  // Its first look is over when it has ended.
  {
    const ScheduledBackups again(*store, schedule, [&](const absl::StatusOr<std::string>&) { ++made; });
  }
  CHECK(made == 0);
}

TEST_CASE("one backup follows the other, and a directory that is away is told of and tried again") {
  const TemporaryDirectory state, elsewhere;
  const auto store = OpenStore(state);
  absl::Notification failed, made;
  const ScheduledBackups backups(
      *store, {.directory = elsewhere.File("disk/backups"), .every = absl::Milliseconds(1), .keep = 1},
      [&](const absl::StatusOr<std::string>& file) {
        absl::Notification& told = file.ok() ? made : failed;
        if (!told.HasBeenNotified()) told.Notify();
      });
  failed.WaitForNotification();
  CHECK(backups.newest() == std::nullopt);
  std::filesystem::create_directory(elsewhere.File("disk"));
  made.WaitForNotification();
}

}  // namespace
}  // namespace medley

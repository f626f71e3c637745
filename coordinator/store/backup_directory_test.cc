#include "coordinator/store/backup_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "coordinator/store/backup.h"
#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

// 2026-01-31 23:59:59 in UTC, and so many hours later.
absl::Time At(int hours) { return absl::FromUnixSeconds(1769903999) + absl::Hours(hours); }

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

TEST_CASE("a backup bears its time, is for its owner alone, and is restored as the store was") {
  const TemporaryDirectory state, elsewhere;
  const auto store = OpenStore(state);
  REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
  const std::string path = elsewhere.path() + "/backups";
  const mode_t umask_before = umask(0);
  const absl::StatusOr<std::string> file = BackupDirectory(path, 3).Add(*store, At(0));
  umask(umask_before);
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(*file == path + "/medley-20260131T235959Z.db");
  CHECK(NamesIn(path) == std::set<std::string>{"medley-20260131T235959Z.db"});
  const auto mode_of = [](const std::string& name) {
    struct stat found = {};
    REQUIRE(stat(name.c_str(), &found) == 0);
    return found.st_mode & 0777;
  };
  CHECK(mode_of(*file) == 0600);
  CHECK(mode_of(path) == 0700);
  REQUIRE(RestoreStore(*file, elsewhere.path() + "/state").ok());
  CHECK((*Store::Open(elsewhere.path() + "/state"))->GetJob("gpt-1").ok());
}

TEST_CASE("the newest so many stay, and whatever bears another name") {
  const TemporaryDirectory state, backups;
  const auto store = OpenStore(state);
  const std::set<std::string> foreign = {"medley.db",
                                         "medley-20200131T235959Z.db.old",
                                         "medley-20200131T235959.db",
                                         "medley-20200230T000000Z.db",
                                         "medley- 2020131T235959Z.db",
                                         "medley-20200131T235959Z.db.partial.gz",
                                         "notes.partial"};
  for (const std::string& name : foreign) backups.Write(name, "x");
  std::filesystem::create_directory(backups.File("medley-20200131T235959Z.db"));
  std::filesystem::create_symlink("medley.db", backups.File("medley-20200131T235958Z.db"));
  // What a coordinator that was killed had begun.
  backups.Write("medley-20200131T000000Z.db.partial", "x");
  const BackupDirectory directory(backups.path(), 2);
  for (const int hours : {0, 24, 48}) REQUIRE(directory.Add(*store, At(hours)).ok());
  std::set<std::string> wanted = foreign;
  wanted.insert({"medley-20200131T235959Z.db", "medley-20200131T235958Z.db", "medley-20260201T235959Z.db",
                 "medley-20260202T235959Z.db"});
  CHECK(NamesIn(backups.path()) == wanted);
  CHECK(*directory.Newest(At(48)) == At(48));
  CHECK(*directory.Newest(At(47)) == At(24));
  CHECK(*directory.Newest(At(0)) == std::nullopt);
}

TEST_CASE("the new backup stays where a clock that was wrong has left newer ones") {
  const TemporaryDirectory state, backups;
  const auto store = OpenStore(state);
  const BackupDirectory directory(backups.path(), 1);
  REQUIRE(directory.Add(*store, At(1000)).ok());
  REQUIRE(directory.Add(*store, At(0)).ok());
  CHECK(NamesIn(backups.path()) == std::set<std::string>{"medley-20260131T235959Z.db"});
}

TEST_CASE("where no backup can be made, the older ones stay, and nothing is left of it") {
  const TemporaryDirectory state, backups;
  const auto store = OpenStore(state);
  const BackupDirectory directory(backups.path(), 1);
  REQUIRE(directory.Add(*store, At(0)).ok());
  std::filesystem::rename(state.File("medley.db"), state.File("away"));
  std::filesystem::create_directory(state.File("medley.db"));
  const absl::Status status = directory.Add(*store, At(24)).status();
  std::filesystem::remove(state.File("medley.db"));
  std::filesystem::rename(state.File("away"), state.File("medley.db"));
  CHECK_THAT(std::string(status.message()), Catch::Contains(state.path()));
  CHECK(NamesIn(backups.path()) == std::set<std::string>{"medley-20260131T235959Z.db"});
}

TEST_CASE("a directory that cannot be used is refused with its path") {
  const TemporaryDirectory state, elsewhere;
  const auto store = OpenStore(state);
  const auto refusal = [&](const std::string& path) {
    const absl::Status status = BackupDirectory(path, 1).Add(*store, At(0)).status();
    CHECK_THAT(std::string(status.message()), Catch::Contains(path));
    return status;
  };
  CHECK(absl::IsNotFound(refusal(elsewhere.File("missing/backups"))));
  CHECK(NamesIn(elsewhere.path()).empty());
  elsewhere.Write("file", "x");
  CHECK(absl::IsNotFound(refusal(elsewhere.File("file"))));
  if (geteuid() == 0) return;  // who may write anywhere
  std::filesystem::create_directory(elsewhere.File("locked"));
  chmod(elsewhere.File("locked").c_str(), 0500);
  CHECK(absl::IsPermissionDenied(refusal(elsewhere.File("locked"))));
}

}  // namespace
}  // namespace medley

#include "coordinator/store/backup.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "coordinator/store/database.h"
#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

TEST_CASE("a backup of a store that is written to is a store, as it was at that moment") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", restored = elsewhere.path() + "/new/state";
  {
    const auto store = OpenStore(directory);
    REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
    REQUIRE(store->AppendSteps("gpt-1", {Step(1, 2.5), Step(2, 2.25)}).ok());
    REQUIRE(store->PutDrainedNode("a").ok());
    REQUIRE(store->BackUp(file).ok());
    CHECK_FALSE(store->BackUp(file).ok());  // it is not written over
    REQUIRE(store->InsertJob(SpecNamed("late"), "", 2).ok());
  }
  const absl::Status status = RestoreStore(file, restored);
  INFO(status);
  REQUIRE(status.ok());
  const auto store = Store::Open(restored);
  REQUIRE(store.ok());
  CHECK((*store)->ListSteps("gpt-1", 0)->size() == 2);
  CHECK(*(*store)->ListDrainedNodes() == std::vector<std::string>{"a"});
  CHECK(absl::IsNotFound((*store)->GetJob("late-2").status()));
  CHECK((*store)->InsertJob(SpecNamed("next"), "", 3)->id() == "next-2");
}

TEST_CASE(
    "a backup is restored without tokens, which may have been spent since, also one of a version without "
    "them") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", restored = elsewhere.path() + "/state";
  {
    const auto store = OpenStore(directory);
    v1::JoinTokenRecord token;
    token.mutable_token()->set_id("a");
    token.mutable_token()->set_expires_at_seconds(100);
    REQUIRE(store->InsertJoinToken(token, 0).ok());
    REQUIRE(store->BackUp(file).ok());
    REQUIRE(store->ListJoinTokens()->size() == 1);
  }
  if (GENERATE(false, true)) {
    MakeVersion6(file);
    auto database = Database::Open(file, Bytes{0});
    REQUIRE(database.ok());
    REQUIRE((*database)->Run("DROP TABLE join_tokens").ok());
    REQUIRE((*database)->Run("DROP TABLE prediction_outcomes").ok());
    REQUIRE((*database)->Run("PRAGMA user_version = 4").ok());
  }
  const absl::Status status = RestoreStore(file, restored);
  INFO(status);
  REQUIRE(status.ok());
  const auto store = Store::Open(restored);
  REQUIRE(store.ok());
  CHECK((*store)->ListJoinTokens()->empty());
}

}  // namespace
}  // namespace medley

namespace {
std::function<void(const std::string& path)> synced;  // hears of every fsync() of this process
}  // namespace

// In the place of the C library's.
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
  if (synced) synced(path.string());
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace medley {
namespace {

TEST_CASE("what is restored is on the disk, and its name is, before it is said to be") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", target = elsewhere.path() + "/state";
  REQUIRE(OpenStore(directory)->BackUp(file).ok());
  std::vector<std::string> order;
  synced = [&](const std::string& path) {
    const bool is_named = std::filesystem::exists(target + "/medley.db");
    order.push_back((is_named ? "named: " : "aside: ") + path.substr(elsewhere.path().size()));
  };
  const absl::Status status = RestoreStore(file, target);
  synced = nullptr;
  INFO(status);
  REQUIRE(status.ok());
  REQUIRE(order.size() >= 2);
  CHECK(order.end()[-2] == "aside: /state/medley.db.restored");
  CHECK(order.end()[-1] == "named: /state");
}

// Who is not root restores into what is its own.
TEST_CASE("what is restored belongs to the owner of the directory, also where root restores it") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", target = elsewhere.path() + "/state";
  REQUIRE(OpenStore(directory)->BackUp(file).ok());
  std::filesystem::create_directory(target);
  const uid_t owner = geteuid() == 0 ? 54321 : geteuid();
  if (geteuid() == 0) REQUIRE(chown(target.c_str(), owner, 54322) == 0);
  REQUIRE(RestoreStore(file, target).ok());
  for (const char* name : {"/medley.db", "/medley.lock"}) {
    CAPTURE(name);
    struct stat made = {};
    REQUIRE(stat((target + name).c_str(), &made) == 0);
    CHECK(made.st_uid == owner);
    CHECK((geteuid() != 0 || made.st_gid == 54322));
  }
}

// The directory is another user's, who could have root give away or write to any file by it.
TEST_CASE("a link in the directory is not followed to a lock that is no file of the store") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", target = elsewhere.path() + "/state",
                    others = elsewhere.path() + "/others";
  REQUIRE(OpenStore(directory)->BackUp(file).ok());
  std::filesystem::create_directory(target);
  std::ofstream(others) << "of root";
  std::filesystem::create_symlink(others, target + "/medley.lock");
  if (geteuid() == 0) REQUIRE(chown(target.c_str(), 54321, 54322) == 0);
  const absl::Status status = RestoreStore(file, target);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("medley.lock"));
  struct stat found = {};
  REQUIRE(stat(others.c_str(), &found) == 0);
  CHECK(found.st_uid == geteuid());
  CHECK_FALSE(std::filesystem::exists(target + "/medley.db"));
}

TEST_CASE("a backup that cannot be read is what is said, and nothing is made") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", target = elsewhere.path() + "/state";
  REQUIRE(OpenStore(directory)->BackUp(file).ok());
  std::filesystem::permissions(elsewhere.path(), std::filesystem::perms::all);
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const bool is_root = geteuid() == 0;  // who reads everything
  if (is_root) REQUIRE(seteuid(54321) == 0);
  const absl::Status status = RestoreStore(file, target);
  if (is_root) REQUIRE(seteuid(0) == 0);
  CHECK(absl::IsPermissionDenied(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(file));
  CHECK_FALSE(std::filesystem::exists(target));
}

TEST_CASE("a store is not restored over another, nor one that is damaged or another's") {
  const TemporaryDirectory directory, elsewhere;
  const std::string file = elsewhere.path() + "/backup.db", target = elsewhere.path() + "/state";
  {
    const auto store = OpenStore(directory);
    REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
    REQUIRE(store->BackUp(file).ok());
    CHECK(absl::IsFailedPrecondition(RestoreStore(file, directory.path())));  // it is open
  }
  CHECK(absl::IsFailedPrecondition(RestoreStore(file, directory.path())));
  CHECK(absl::IsNotFound(RestoreStore(elsewhere.path() + "/nowhere", target)));
  // What is left of another store beside it would be taken for changes of this one.
  std::filesystem::create_directories(target);
  std::ofstream(target + "/medley.db-wal") << "changes of another";
  CHECK_THAT(std::string(RestoreStore(file, target).message()),
             Catch::Contains("medley.db-wal is there already"));
  std::filesystem::remove(target + "/medley.db-wal");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4096);
  CHECK_FALSE(RestoreStore(file, target).ok());
  std::ofstream(file, std::ios::trunc)
      << "no database at all, but long enough for one to be looked for in it";
  CHECK(absl::IsDataLoss(RestoreStore(file, target)));
  CHECK_FALSE(std::filesystem::exists(target + "/medley.db"));
  CHECK_FALSE(std::filesystem::exists(target + "/medley.db.restored"));
}

}  // namespace
}  // namespace medley

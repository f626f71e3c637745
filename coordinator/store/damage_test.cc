#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "coordinator/store/database.h"
#include "coordinator/store/periodic_check.h"
#include "coordinator/store/schema.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

void Overwrite(const std::string& path, int64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Fill(const TemporaryDirectory& directory) {
  const auto store = OpenStore(directory);
  for (int i = 0; i < 5; ++i) {
    const std::string job = store->InsertJob(SpecNamed("j"), "request " + std::to_string(i), 0)->id();
    std::vector<v1::StepMetrics> steps;
    for (uint32_t step = 1; step <= 400; ++step) steps.push_back(Step(step, 1.0 / step));
    REQUIRE(store->AppendSteps(job, steps).ok());
    REQUIRE(store->AppendLogs(job, std::vector<v1::LogLine>(100, Line("something happened"))).ok());
  }
}

TEST_CASE("a second store on the same directory is refused while the first is there") {
  const TemporaryDirectory directory;
  {
    const auto store = OpenStore(directory);
    const absl::Status second = Store::Open(directory.path()).status();
    REQUIRE(absl::IsFailedPrecondition(second));
    CHECK_THAT(std::string(second.message()), Catch::Contains(directory.path()));
    CHECK(store->InsertJob(SpecNamed("j"), "", 0).ok());
  }
  CHECK(Store::Open(directory.path()).ok());
}

TEST_CASE("a file that is damaged while it is open is found out at the next look") {
  const TemporaryDirectory directory;
  Fill(directory);
  const auto store = OpenStore(directory);
  CHECK(store->Check().ok());
  Overwrite(directory.path() + "/medley.db", 4096, std::string(16 * 4096, '\x55'));
  CHECK(store->IsWhole());
  CHECK(absl::IsDataLoss(store->Check()));
  CHECK_FALSE(store->IsWhole());
  absl::Notification found;
  const PeriodicCheck check(*store, absl::Milliseconds(1), [&](const absl::Status& status) {
    if (absl::IsDataLoss(status) && !found.HasBeenNotified()) found.Notify();
  });
  found.WaitForNotification();
  CHECK_FALSE(store->IsWhole());  // for as long as it is so
}

TEST_CASE("that another program has the file locked is no failure of the file") {
  const TemporaryDirectory directory;
  const auto one = Database::Open(directory.File("a.db"), Bytes{0}),
             other = Database::Open(directory.File("a.db"), Bytes{0});
  REQUIRE((one.ok() && other.ok()));
  REQUIRE((*other)->Run("PRAGMA busy_timeout = 0").ok());
  REQUIRE((*one)->Run("BEGIN IMMEDIATE").ok());
  CHECK(absl::IsUnavailable((*other)->Run("BEGIN IMMEDIATE")));
  CHECK((*other)->failures() == 0);
}

TEST_CASE("a directory that cannot be used is refused with its path") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  for (const std::string& path : {file, file + "/below", std::string()}) {
    CAPTURE(path);
    const absl::Status status = Store::Open(path).status();
    REQUIRE(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(path.empty() ? "empty" : file));
  }
}

TEST_CASE("a file of version 1 is brought up to date with all that is in it") {
  const TemporaryDirectory directory;
  {
    const auto store = OpenStore(directory);
    REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
    REQUIRE(store->NextAttempt().ok());
    REQUIRE(*store->NextAttempt() == 2);
  }
  MakeVersion6(directory.File("medley.db"));
  {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    for (const char* change :
         {"UPDATE counters SET name = 'epochs' WHERE name = 'attempts'", "DROP TABLE traces",
          "DROP TABLE nodes", "DROP TABLE host_slowdowns", "DROP TABLE plan_grounds", "DROP TABLE audit",
          "DROP TABLE drained_nodes", "DROP TABLE join_tokens", "DROP TABLE prediction_outcomes",
          "CREATE TABLE traces (job INTEGER PRIMARY KEY, message BLOB NOT NULL)",
          "PRAGMA user_version = 1"}) {
      REQUIRE((*database)->Run(change).ok());
    }
  }
  const auto store = OpenStore(directory);
  CHECK(store->GetJob("gpt-1").ok());
  CHECK(*store->NextAttempt() == 3);  // an attempt's number never comes twice
  CHECK(store->ListNodes()->empty());
  v1::Trace trace;
  trace.set_job_id("gpt-1");
  trace.set_step(4);
  CHECK(store->PutTrace(trace).ok());
  v1::PlanGrounds grounds;
  grounds.set_job_id("gpt-1");
  CHECK(store->PutPlanGrounds(grounds).ok());
  CHECK(store->GetTrace("gpt-1", 4).ok());
}

TEST_CASE("a file of version 2 is brought up to date") {
  const TemporaryDirectory directory;
  REQUIRE(OpenStore(directory)->InsertJob(SpecNamed("gpt"), "", 1).ok());
  MakeVersion6(directory.File("medley.db"));
  {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    for (const char* change :
         {"DROP TABLE plan_grounds", "DROP TABLE audit", "DROP TABLE drained_nodes", "DROP TABLE join_tokens",
          "DROP TABLE prediction_outcomes", "PRAGMA user_version = 2"})
      REQUIRE((*database)->Run(change).ok());
  }
  const auto store = OpenStore(directory);
  CHECK(absl::IsNotFound(store->GetPlanGrounds("gpt-1").status()));
  v1::PlanGrounds grounds;
  grounds.set_job_id("gpt-1");
  grounds.set_launch(7);
  REQUIRE(store->PutPlanGrounds(grounds).ok());
  CHECK(store->GetPlanGrounds("gpt-1")->launch() == 7);
  REQUIRE(store->DeleteJob("gpt-1").ok());
  CHECK(absl::IsNotFound(store->GetPlanGrounds("gpt-1").status()));
}

TEST_CASE("the audit of a new file and of one of version 3 is appended to, and nothing else") {
  const TemporaryDirectory directory;
  (void)OpenStore(directory);
  const auto change = [&](const char* sql) {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    return (*database)->Run(sql);
  };
  if (GENERATE(false, true)) {
    MakeVersion6(directory.File("medley.db"));
    REQUIRE(change("DROP TABLE audit").ok());
    REQUIRE(change("DROP TABLE drained_nodes").ok());
    REQUIRE(change("DROP TABLE join_tokens").ok());
    REQUIRE(change("DROP TABLE prediction_outcomes").ok());
    REQUIRE(change("PRAGMA user_version = 3").ok());
  }
  v1::AuditRecord record;
  for (const char* method : {"SubmitJob", "CancelJob", "DeleteJob"}) {
    record.set_method(method);
    REQUIRE(OpenStore(directory)->AppendAudit(record).ok());
  }
  CHECK_FALSE(change("DELETE FROM audit").ok());
  CHECK_FALSE(change("UPDATE audit SET message = x'00' WHERE number = 1").ok());
  const auto records = OpenStore(directory)->ListAudit(2);
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].number() == 2);
  CHECK((*records)[0].method() == "CancelJob");
  CHECK((*records)[1].method() == "DeleteJob");
}

TEST_CASE("a file of version 4 is brought up to date, and keeps its audit") {
  const TemporaryDirectory directory;
  v1::AuditRecord record;
  record.set_method("SubmitJob");
  REQUIRE(OpenStore(directory)->AppendAudit(record).ok());
  MakeVersion6(directory.File("medley.db"));
  {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    for (const char* change :
         {"DROP TABLE join_tokens", "DROP TABLE prediction_outcomes", "PRAGMA user_version = 4"})
      REQUIRE((*database)->Run(change).ok());
  }
  const auto store = OpenStore(directory);
  CHECK(store->ListAudit(10)->size() == 1);
  CHECK(store->ListJoinTokens()->empty());
  v1::JoinTokenRecord token;
  token.mutable_token()->set_id("a");
  CHECK(store->InsertJoinToken(token, 0).ok());
}

TEST_CASE("a file of version 5 is brought up to date, and keeps its tokens") {
  const TemporaryDirectory directory;
  v1::JoinTokenRecord token;
  token.mutable_token()->set_id("a");
  REQUIRE(OpenStore(directory)->InsertJoinToken(token, 0).ok());
  MakeVersion6(directory.File("medley.db"));
  {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    for (const char* change : {"DROP TABLE prediction_outcomes", "PRAGMA user_version = 5"})
      REQUIRE((*database)->Run(change).ok());
  }
  const auto store = OpenStore(directory);
  CHECK(store->ListJoinTokens()->size() == 1);
  CHECK(store->ListPredictionOutcomes()->empty());
  v1::PredictionOutcome outcome;
  outcome.set_launch(1);
  CHECK(store->PutPredictionOutcome(outcome).ok());
}

TEST_CASE("a file of version 6 is brought up to date, and keeps its nodes, which were there to the end") {
  const TemporaryDirectory directory;
  REQUIRE(OpenStore(directory)->ChangeNodes({{"a", Store::KnownNode()}}).ok());
  MakeVersion6(directory.File("medley.db"));
  const auto store = OpenStore(directory);
  const auto nodes = store->ListNodes();
  REQUIRE(nodes.ok());
  REQUIRE(nodes->size() == 1);
  CHECK(nodes->front().node.name() == "a");
  CHECK(nodes->front().lost_at_seconds == 0);
}

TEST_CASE("a file of a newer version, or of another program, is refused and left as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("medley.db");
  std::string expected;
  SECTION("newer") {
    Fill(directory);
    auto database = Database::Open(path, Bytes{0});
    REQUIRE(database.ok());
    REQUIRE((*database)->Run(("PRAGMA user_version = " + std::to_string(kSchemaVersion + 1)).c_str()).ok());
    expected = "a newer one wrote it";
  }
  SECTION("another program's") {
    auto database = Database::Open(path, Bytes{0});
    REQUIRE(database.ok());
    REQUIRE((*database)->Run("CREATE TABLE recipes (name TEXT)").ok());
    expected = "another program's";
  }
  const std::string before = Contents(path);
  const absl::Status status = Store::Open(directory.path()).status();
  REQUIRE(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(path) && Catch::Contains(expected));
  CHECK(Contents(path) == before);
}

TEST_CASE("a file that is no database, or a damaged one, is data loss and named") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("medley.db");
  SECTION("something else altogether") { std::ofstream(path) << std::string(10'000, 'x'); }
  SECTION("a broken header") {
    Fill(directory);
    Overwrite(path, 0, "not SQLite at all");
  }
  SECTION("a page of rubbish") {
    Fill(directory);
    Overwrite(path, 4096 * 3, std::string(4096, '\xa5'));
  }
  SECTION("the end is missing") {
    Fill(directory);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  }
  const absl::Status status = Store::Open(directory.path()).status();
  CAPTURE(status.ToString());
  REQUIRE(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(path));
}

TEST_CASE("damage that shows only when a row is read is data loss and named") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("medley.db");
  Fill(directory);
  {
    auto database = Database::Open(path, Bytes{0});
    REQUIRE(database.ok());
    REQUIRE(
        (*database)->Run("UPDATE jobs SET message = ? WHERE id = 'j-2'", Blob{std::string("\xff\xff")}).ok());
  }
  const auto store = OpenStore(directory);
  CHECK(store->GetJob("j-1").ok());
  for (const std::string& message :
       {store->GetJob("j-2").status().ToString(), store->ListJobs(10).status().ToString()}) {
    CHECK_THAT(message, Catch::StartsWith("DATA_LOSS") && Catch::Contains(path));
  }
}

TEST_CASE("of a job's traces only the one that is asked for is read") {
  const TemporaryDirectory directory;
  {
    const auto store = OpenStore(directory);
    REQUIRE(store->InsertJob(SpecNamed("j"), "", 1).ok());
    v1::Trace trace;
    trace.set_job_id("j-1");
    for (uint32_t step = 1; step <= 3; ++step) {
      trace.set_step(step);
      REQUIRE(store->PutTrace(trace).ok());
    }
  }
  {
    auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    REQUIRE(
        (*database)->Run("UPDATE traces SET message = ? WHERE step = 2", Blob{std::string("\xff\xff")}).ok());
  }
  const auto store = OpenStore(directory);
  CHECK(store->GetTrace("j-1")->step() == 3);
  CHECK(store->GetTrace("j-1", 1)->step() == 1);
  CHECK(absl::IsDataLoss(store->GetTrace("j-1", 2).status()));
  CHECK(store->GetTrace("j-1", 4).status() ==
        absl::NotFoundError("step: 4 of job j-1 has no trace; there are those of steps 1, 2, 3"));
}

TEST_CASE("whatever bytes are damaged, a call answers or reports data loss", "[property]") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("medley.db");
  Fill(directory);
  const std::string whole = Contents(path);
  int refused = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::ofstream(path, std::ios::binary) << whole;
    std::string rubbish(1 + random() % 200, '\0');
    for (char& byte : rubbish) byte = static_cast<char>(random());
    // Behind the header's fields, which say whose file it is.
    Overwrite(path, static_cast<int64_t>(100 + random() % (whole.size() - 300)), rubbish);
    const auto store = Store::Open(directory.path());
    std::vector<absl::Status> statuses;
    statuses.push_back(store.status());
    if (store.ok()) {
      statuses.push_back((*store)->ListJobs(100).status());
      statuses.push_back((*store)->ListSteps("j-1", 0).status());
      statuses.push_back((*store)->ListLogs("j-5", 100).status());
    }
    for (const absl::Status& status : statuses) {
      CAPTURE(status.ToString());
      // A damaged id is one that is not there.
      CHECK((status.ok() || absl::IsDataLoss(status) || absl::IsNotFound(status)));
      if (absl::IsDataLoss(status)) CHECK_THAT(std::string(status.message()), Catch::Contains(path));
    }
    refused += store.ok() ? 0 : 1;
  }
  CHECK(refused > 0);
}

TEST_CASE("a full store says so, keeps what it has, and goes on once there is room") {
  const TemporaryDirectory directory;
  size_t kept = 0;
  {
    const auto store = OpenStore(directory, {.max_size = KiB(400)});
    const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
    const std::vector<v1::LogLine> lines(10, Line(std::string(1000, 'x')));
    // What is the caller's fault is not the file's.
    CHECK_FALSE(store->GetJob("nobody-7").ok());
    CHECK(store->Failures() == 0);
    absl::Status status;
    while (status.ok()) {
      REQUIRE(kept < 1000);
      status = store->AppendLogs(job, lines);
      if (status.ok()) kept += lines.size();
    }
    REQUIRE(absl::IsResourceExhausted(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(directory.File("medley.db")));
    CHECK(store->Failures() == 1);
    CHECK(kept > 100);
    CHECK(store->ListLogs(job, 10'000)->size() == kept);
  }
  const auto store = OpenStore(directory);
  REQUIRE(store->AppendLogs("j-1", {Line("room again")}).ok());
  CHECK(store->ListLogs("j-1", 10'000)->size() == kept + 1);
}

}  // namespace
}  // namespace medley

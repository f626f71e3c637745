#include "coordinator/store/store.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "coordinator/store/database.h"
#include "coordinator/store/store_under_test.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

bool Same(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

std::vector<std::string> IdsOf(const std::vector<v1::Job>& jobs) {
  std::vector<std::string> ids;
  for (const v1::Job& job : jobs) ids.push_back(job.id());
  return ids;
}

v1::DeviceProfile ProfileOf(const std::string& kind, const std::string& shape,
                            const std::vector<uint32_t>& sizes, double seconds) {
  v1::DeviceProfile profile;
  profile.set_device_kind(kind);
  profile.set_shape(shape);
  for (const uint32_t size : sizes) {
    v1::BlockPassTimes* times = profile.add_times();
    times->set_micro_batch_sequences(size);
    times->set_layer_forward_seconds(seconds * size);
  }
  return profile;
}

TEST_CASE("a new job is queued under a number of its own, with all that was asked for") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const auto job = store->InsertJob(SpecNamed("gpt"), "", 12.5);
  REQUIRE(job.ok());
  CHECK(job->id() == "gpt-1");
  CHECK(job->state() == v1::JOB_STATE_QUEUED);
  CHECK(job->submitted_at_seconds() == 12.5);
  CHECK(Same(job->spec(), SpecNamed("gpt")));
  CHECK(store->InsertJob(SpecNamed("gpt"), "", 13)->id() == "gpt-2");
  CHECK(Same(*store->GetJob("gpt-1"), *job));
  CHECK(absl::IsNotFound(store->GetJob("gpt-3").status()));
}

TEST_CASE("every job has a run of its own, and a request id stays with the spec that it came with") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const auto first = store->InsertJob(SpecNamed("gpt"), "request", 1),
             second = store->InsertJob(SpecNamed("gpt"), "", 2);
  CHECK(first->run_id().size() == 16);
  CHECK(first->run_id() != second->run_id());
  v1::JobSpec other = SpecNamed("gpt");
  other.set_steps(other.steps() + 1);
  const absl::Status refused = store->InsertJob(other, "request", 3).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("request_id") && Catch::Contains("gpt-1"));
  CHECK(store->ListJobs(10)->size() == 2);
}

TEST_CASE("a job is deleted with all that it reported, and its number is not given again") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
  REQUIRE(store->AppendSteps("gpt-1", {Step(1, 2)}).ok());
  REQUIRE(store->DeleteJob("gpt-1").ok());
  CHECK(absl::IsNotFound(store->GetJob("gpt-1").status()));
  CHECK(absl::IsNotFound(store->DeleteJob("gpt-1")));
  CHECK(store->InsertJob(SpecNamed("gpt"), "", 2)->id() == "gpt-2");
  CHECK(store->ListSteps("gpt-2", 0)->empty());
}

TEST_CASE("steps that are made again are dropped, and the newest can be had alone") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
  for (uint32_t step = 1; step <= 9; ++step) REQUIRE(store->AppendSteps("gpt-1", {Step(step, step)}).ok());
  v1::ValidationMetrics validation;
  validation.set_step(8);
  REQUIRE(store->AppendValidations("gpt-1", {validation}).ok());
  const auto newest = store->ListSteps("gpt-1", 5, 2);
  REQUIRE(newest->size() == 2);
  CHECK(newest->front().step() == 8);
  REQUIRE(store->DropStepsAfter("gpt-1", 6).ok());
  CHECK(store->ListSteps("gpt-1", 0)->size() == 6);
  const auto next = store->NextSteps("gpt-1", 0, 2);
  REQUIRE(next->size() == 2);
  CHECK(next->at(0).step() == store->ListSteps("gpt-1", 0)->at(0).step());
  CHECK(store->NextSteps("gpt-1", next->at(1).step(), 100)->size() == 4);
  CHECK(store->ListValidations("gpt-1", 0)->empty());
}

TEST_CASE("of a job the newest sixteen traces stay, in the order in which they came") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
  v1::Trace trace;
  trace.set_job_id("gpt-1");
  for (uint32_t step = 1; step <= 20; ++step) {
    trace.set_step(step);
    REQUIRE(store->PutTrace(trace).ok());
  }
  trace.set_step(7);  // after a restart
  REQUIRE(store->PutTrace(trace).ok());
  CHECK(store->GetTrace("gpt-1")->step() == 7);
  CHECK(store->GetTrace("gpt-1", 20)->step() == 20);
  const absl::Status gone = store->GetTrace("gpt-1", 4).status();
  CHECK(absl::IsNotFound(gone));
  CHECK_THAT(std::string(gone.message()), Catch::Contains("those of steps 5, 6, 7, 8"));
}

TEST_CASE("nodes are remembered with what they are and since when they are lost, until they are forgotten") {
  const TemporaryDirectory directory;
  {
    const auto store = OpenStore(directory);
    Store::KnownNode at_north;
    at_north.node.set_name("b");
    at_north.node.set_site("north");
    Store::KnownNode lost = at_north;
    lost.lost_at_seconds = 1'700'000'000;
    REQUIRE(store->ChangeNodes({{"a", at_north}, {"b", at_north}, {"c", at_north}}).ok());
    REQUIRE(store->ChangeNodes({{"b", lost}, {"c", std::nullopt}, {"nobody", std::nullopt}}).ok());
  }
  const auto nodes = OpenStore(directory)->ListNodes();
  REQUIRE(nodes.ok());
  REQUIRE(nodes->size() == 2);
  CHECK((*nodes)[0].node.name() == "a");
  CHECK((*nodes)[0].lost_at_seconds == 0);
  CHECK((*nodes)[1].node.name() == "b");
  CHECK((*nodes)[1].node.site() == "north");
  CHECK((*nodes)[1].lost_at_seconds == 1'700'000'000);
}

TEST_CASE("of the audit what is older than asked goes, says so, and leaves what is younger where it is") {
  const TemporaryDirectory directory;
  const auto at = [](double seconds) {
    v1::AuditRecord record;
    record.set_method("SubmitJob");
    record.set_at_seconds(seconds);
    return record;
  };
  {
    const auto store = OpenStore(directory);
    // The clock was set back before the fourth.
    for (const double seconds : {10, 20, 30, 15, 40}) REQUIRE(store->AppendAudit(at(seconds)).ok());
    CHECK(*store->DropAudit(10, 100) == 0);
    CHECK(store->ListAudit(100)->size() == 5);
    CHECK(*store->DropAudit(30, 100) == 2);
  }
  {  // Nobody else takes what is left.
    const auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE(database.ok());
    CHECK_FALSE((*database)->Run("DELETE FROM audit").ok());
  }
  const auto store = OpenStore(directory);
  const auto records = store->ListAudit(100);
  REQUIRE(records.ok());
  REQUIRE(records->size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK((*records)[i].number() == 3 + i);
  CHECK((*records)[0].at_seconds() == 30);
  const v1::AuditRecord& told = records->back();
  CHECK(told.at_seconds() == 100);
  CHECK(told.identity() == "medley-coordinator");
  CHECK(told.method() == "DropAudit");
  CHECK(told.message() == "2 up to number 2, all from before 1970-01-01T00:00:30+00:00");

  CHECK(*store->DropAudit(200, 300) == 4);  // that, too, in its time
  CHECK(store->ListAudit(100)->size() == 1);
  CHECK(store->ListAudit(100)->front().number() == 7);
}

TEST_CASE("lines are numbered, and can be had from a number on") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  REQUIRE(store->InsertJob(SpecNamed("gpt"), "", 1).ok());
  REQUIRE(store->AppendLogs("gpt-1", {Line("one"), Line("two"), Line("three")}).ok());
  const auto lines = store->ListLogs("gpt-1", 10, 1);
  REQUIRE(lines->size() == 2);
  CHECK(lines->front().text() == "two");
  CHECK(lines->back().number() == 3);
}

TEST_CASE("a submission that is repeated answers with the same job as it is now") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  v1::Job job = *store->InsertJob(SpecNamed("gpt"), "request", 1);
  job.set_state(v1::JOB_STATE_RUNNING);
  REQUIRE(store->UpdateJob(job).ok());
  const auto again = store->InsertJob(SpecNamed("gpt"), "request", 2);
  REQUIRE(again.ok());
  CHECK(Same(*again, job));
  CHECK(store->InsertJob(SpecNamed("gpt"), "another request", 3)->id() == "gpt-2");
  CHECK(store->ListJobs(100)->size() == 2);
}

TEST_CASE("jobs are listed newest first, and those that have not ended in order of submission") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  CHECK(store->ListJobs(10)->empty());
  for (int state = v1::JOB_STATE_QUEUED; state <= v1::JOB_STATE_CANCELLED; ++state) {
    v1::Job job = *store->InsertJob(SpecNamed("j"), "", state);
    job.set_state(static_cast<v1::JobState>(state));
    REQUIRE(store->UpdateJob(job).ok());
  }
  CHECK(IdsOf(*store->ListJobs(3)) == std::vector<std::string>{"j-9", "j-8", "j-7"});
  CHECK(store->ListJobs(100)->size() == 9);
  CHECK(store->ListJobs(0)->empty());
  CHECK(*store->ListJobIds(3) == std::vector<std::string>{"j-9", "j-8", "j-7"});
  CHECK(store->ListJobIds(100)->size() == 9);
  CHECK(store->ListJobIds(0)->empty());
  CHECK(IdsOf(*store->UnfinishedJobs()) ==
        std::vector<std::string>{"j-1", "j-2", "j-3", "j-4", "j-5", "j-6"});
  v1::Job unknown;
  unknown.set_id("j-10");
  CHECK(absl::IsNotFound(store->UpdateJob(unknown)));
}

TEST_CASE("jobs that have ended are counted by how, however many there are, also those of older versions") {
  const TemporaryDirectory directory;
  {
    const auto store = OpenStore(directory);
    const auto end = [&](v1::JobState state) {
      v1::Job job = *store->InsertJob(SpecNamed("gpt"), "", 1);
      job.set_state(state);
      REQUIRE(store->UpdateJob(job).ok());
    };
    for (int i = 0; i < 30; ++i) end(v1::JOB_STATE_DONE);
    end(v1::JOB_STATE_FAILED);
    end(v1::JOB_STATE_RUNNING);
    const auto counts = store->CountEndedJobs();
    REQUIRE(counts.ok());
    CHECK(*counts == std::map<v1::JobState, int64_t>{{v1::JOB_STATE_DONE, 30}, {v1::JOB_STATE_FAILED, 1}});
    CHECK(store->Durations().at("UpdateJob").seconds_total > 0);
    CHECK(store->Durations().count("ListLinks") == 0);
  }
  {
    const auto database = Database::Open(directory.File("medley.db"), Bytes{0});
    REQUIRE((*database)->Run("UPDATE jobs SET ended = 1 WHERE ended > 0").ok());
    REQUIRE((*database)->Run("DROP INDEX jobs_by_end").ok());
  }
  CHECK(OpenStore(directory)->CountEndedJobs()->at(v1::JOB_STATE_DONE) == 30);
  CHECK(OpenStore(directory)->UnfinishedJobs()->size() == 1);
}

TEST_CASE("steps after a restart replace those from before it") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  const std::string other = store->InsertJob(SpecNamed("other"), "", 0)->id();
  REQUIRE(store->AppendSteps(job, {Step(1, 5), Step(2, 4), Step(3, 3)}).ok());
  REQUIRE(store->AppendSteps(job, {Step(2, 40), Step(10, 1)}).ok());
  REQUIRE(store->AppendSteps(other, {Step(2, 9)}).ok());
  const auto steps = store->ListSteps(job, 1);
  REQUIRE(steps.ok());
  REQUIRE(steps->size() == 3);
  CHECK(Same((*steps)[0], Step(2, 40)));
  CHECK(Same((*steps)[1], Step(3, 3)));
  CHECK(Same((*steps)[2], Step(10, 1)));
  CHECK(store->ListSteps(job, 10)->empty());
  CHECK(store->ListSteps(job, std::numeric_limits<uint32_t>::max())->empty());
  v1::ValidationMetrics validation;
  validation.set_step(2);
  validation.set_loss(4.5);
  REQUIRE(store->AppendValidations(job, {validation}).ok());
  CHECK(Same(store->ListValidations(job, 1)->at(0), validation));
  CHECK(store->ListValidations(job, 2)->empty());
}

TEST_CASE("a loss that is not a number is kept as such") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  REQUIRE(store->AppendSteps(job, {Step(1, std::nan(""))}).ok());
  CHECK(std::isnan(store->ListSteps(job, 0)->at(0).loss()));
}

TEST_CASE("of the log lines of each job the newest stay, in order") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory, {.log_lines_per_job = 5});
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  const std::string other = store->InsertJob(SpecNamed("other"), "", 0)->id();
  REQUIRE(store->AppendLogs(other, {Line("kept")}).ok());
  int written = 0;
  for (const int batch : {1, 3, 0, 4, 7, 1}) {
    std::vector<v1::LogLine> lines;
    for (int i = 0; i < batch; ++i) lines.push_back(Line(std::to_string(written++)));
    REQUIRE(store->AppendLogs(job, lines).ok());
    const auto kept = store->ListLogs(job, 100);
    REQUIRE(kept.ok());
    REQUIRE(kept->size() == static_cast<size_t>(std::min(written, 5)));
    for (size_t i = 0; i < kept->size(); ++i) {
      CHECK((*kept)[i].text() == std::to_string(written - static_cast<int>(kept->size() - i)));
    }
  }
  CHECK(store->ListLogs(job, 1)->at(0).text() == std::to_string(written - 1));
  CHECK(store->ListLogs(other, 100)->size() == 1);
}

TEST_CASE("by default ten thousand log lines of a job stay") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  REQUIRE(store->AppendLogs(job, std::vector<v1::LogLine>(10'001, Line("x"))).ok());
  CHECK(store->ListLogs(job, 100'000)->size() == 10'000);
}

TEST_CASE("a text that could not be read back is refused, and nothing of its call is kept") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  CHECK(absl::IsInvalidArgument(store->AppendLogs(job, {Line("good"), Line("bad \xff")})));
  CHECK(store->ListLogs(job, 10)->empty());
}

TEST_CASE("a job has its newest trace") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  const std::string job = store->InsertJob(SpecNamed("j"), "", 0)->id();
  CHECK(absl::IsNotFound(store->GetTrace(job).status()));
  v1::Trace trace;
  trace.set_job_id(job);
  for (const uint32_t step : {3, 7}) {
    trace.set_step(step);
    REQUIRE(store->PutTrace(trace).ok());
    CHECK(Same(*store->GetTrace(job), trace));
  }
}

TEST_CASE("what is reported of a job that does not exist is not found") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  v1::Trace trace;
  trace.set_job_id("no-1");
  const std::vector<absl::Status> statuses = {
      store->AppendSteps("no-1", {Step(1, 1)}), store->AppendValidations("no-1", {}),
      store->AppendLogs("no-1", {Line("x")}),   store->PutTrace(trace),
      store->ListSteps("no-1", 0).status(),     store->ListValidations("no-1", 0).status(),
      store->ListLogs("no-1", 1).status(),      store->GetTrace("no-1").status()};
  for (const absl::Status& status : statuses) {
    CHECK(absl::IsNotFound(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("no-1"));
  }
}

TEST_CASE("a profile is found only if every micro-batch size was measured") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  REQUIRE(store->PutProfile(ProfileOf("amx", "tiny", {2, 1}, 0.5)).ok());
  const auto found = store->FindProfile("amx", "tiny", std::vector<uint32_t>{1, 2});
  REQUIRE(found.ok());
  CHECK(Same(*found, ProfileOf("amx", "tiny", {1, 2}, 0.5)));
  const absl::Status missing = store->FindProfile("amx", "tiny", std::vector<uint32_t>{1, 4, 8}).status();
  REQUIRE(absl::IsNotFound(missing));
  CHECK_THAT(std::string(missing.message()), Catch::Contains("micro-batches of 4, 8"));
  CHECK(absl::IsNotFound(store->FindProfile("avx2", "tiny", std::vector<uint32_t>{1}).status()));
  CHECK(absl::IsNotFound(store->FindProfile("amx", "small", std::vector<uint32_t>{1}).status()));
}

TEST_CASE("a newer profile keeps the sizes that only the older one has, and what those need") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  v1::DeviceProfile older = ProfileOf("amx", "tiny", {1, 8}, 1);
  older.set_workspace_bytes(100);
  older.set_provenance("old");
  v1::DeviceProfile newer = ProfileOf("amx", "tiny", {1, 2}, 3);
  newer.set_workspace_bytes(10);
  newer.set_provenance("new");
  REQUIRE(store->PutProfile(older).ok());
  REQUIRE(store->PutProfile(newer).ok());
  const auto merged = store->FindProfile("amx", "tiny", std::vector<uint32_t>{1, 2, 8});
  REQUIRE(merged.ok());
  CHECK(merged->times(0).layer_forward_seconds() == 3);
  CHECK(merged->times(1).layer_forward_seconds() == 6);
  CHECK(merged->times(2).layer_forward_seconds() == 8);
  CHECK(merged->workspace_bytes() == 100);
  CHECK(merged->provenance() == "new");

  v1::DeviceProfile all = ProfileOf("amx", "tiny", {1, 2, 8}, 4);
  all.set_workspace_bytes(20);
  REQUIRE(store->PutProfile(all).ok());
  CHECK(Same(*store->FindProfile("amx", "tiny", {}), all));
}

TEST_CASE("what jobs taught about a profile stays with it until it is measured anew") {
  const TemporaryDirectory directory;
  v1::ProfileCorrection correction;
  correction.set_factor(0.94);
  correction.set_job_id("gpt-1");
  {
    const auto store = OpenStore(directory);
    CHECK(store->PutCorrection("amx", "tiny", 0, correction).value() == false);
    REQUIRE(store->PutProfile(ProfileOf("amx", "tiny", {1}, 1)).ok());
    CHECK(store->PutCorrection("amx", "tiny", 5, correction).value() == false);
    CHECK(store->PutCorrection("amx", "tiny", 0, correction).value());
    v1::ProfileCorrection other = correction;
    for (const v1::TimeClass times : {v1::TIME_CLASS_UPDATES, v1::TIME_CLASS_NORMS, v1::TIME_CLASS_UPDATES}) {
      other.set_times(times);
      other.set_factor(other.factor() + 1);
      CHECK(store->PutCorrection("amx", "tiny", 0, other).value());
    }
  }
  const auto store = OpenStore(directory);
  CHECK(Same(store->ListProfiles()->at(0).correction(), correction));
  CHECK(store->ListProfiles()->at(0).times_size() == 1);
  REQUIRE(store->ListProfiles()->at(0).other_corrections_size() == 2);
  CHECK(store->ListProfiles()->at(0).other_corrections(0).times() == v1::TIME_CLASS_UPDATES);
  CHECK(store->ListProfiles()->at(0).other_corrections(0).factor() == Approx(3.94));
  CHECK(store->ListProfiles()->at(0).other_corrections(1).factor() == Approx(2.94));
  // Of devices one each, unless it is as fast as the others.
  for (const auto& [device, factor] : {std::pair("a/gpu0", 1.5), std::pair("b/gpu0", 2.0),
                                       std::pair("a/gpu0", 1.25), std::pair("b/gpu0", 1.0)}) {
    v1::ProfileCorrection of_device = correction;
    of_device.set_device(device);
    of_device.set_factor(factor);
    of_device.set_at_seconds(UnixSecondsNow());
    CHECK(store->PutCorrection("amx", "tiny", 0, of_device).value());
  }
  REQUIRE(store->ListProfiles()->at(0).devices_size() == 1);
  CHECK(store->ListProfiles()->at(0).devices(0).device() == "a/gpu0");
  CHECK(store->ListProfiles()->at(0).devices(0).factor() == 1.25);
  v1::ProfileCorrection of_yesterday = correction;
  of_yesterday.set_device("c/gpu0");
  of_yesterday.set_at_seconds(UnixSecondsNow() - 25 * 3600);
  CHECK(store->PutCorrection("amx", "tiny", 0, of_yesterday).value());
  CHECK(store->ListProfiles()->at(0).devices_size() == 1);
  CHECK(Same(store->ListProfiles()->at(0).correction(), correction));
  REQUIRE(store->PutProfile(ProfileOf("amx", "tiny", {2}, 1)).ok());
  CHECK(store->ListProfiles()->at(0).devices().empty());
  CHECK_FALSE(store->ListProfiles()->at(0).has_correction());
  CHECK(store->ListProfiles()->at(0).other_corrections().empty());
}

TEST_CASE("how much a host's devices slow each other down is kept by host and shape, the newest of each") {
  const TemporaryDirectory directory;
  v1::HostSlowdown slowdown;
  slowdown.set_host("rack1");
  slowdown.set_shape("tiny");
  v1::SharedSlowdown& device = *slowdown.add_devices();
  device.set_device("a/cpu0");
  device.set_device_kind("amx");
  device.set_factor(1.2);
  {
    const auto store = OpenStore(directory);
    CHECK(store->ListHostSlowdowns()->empty());
    REQUIRE(store->PutHostSlowdown(slowdown).ok());
    device.set_factor(1.3);
    REQUIRE(store->PutHostSlowdown(slowdown).ok());
    slowdown.set_shape("small");
    REQUIRE(store->PutHostSlowdown(slowdown).ok());
  }
  const auto store = OpenStore(directory);
  REQUIRE(store->ListHostSlowdowns()->size() == 2);
  CHECK(Same(store->ListHostSlowdowns()->at(0), slowdown));
  CHECK(store->ListHostSlowdowns()->at(1).devices(0).factor() == 1.3);
}

TEST_CASE("of how predictions came out the newest hundred stay, one a launch, also across a restart") {
  const TemporaryDirectory directory;
  v1::PredictionOutcome outcome;
  {
    const auto store = OpenStore(directory);
    CHECK(store->ListPredictionOutcomes()->empty());
    for (uint64_t launch = 150; launch > 0; --launch) {
      outcome.set_launch(launch);
      outcome.set_predicted_step_seconds(static_cast<double>(launch));
      REQUIRE(store->PutPredictionOutcome(outcome).ok());
    }
    outcome.set_launch(150);
    outcome.set_job_id("gpt-1");
    outcome.set_measured_step_seconds(7);
    REQUIRE(store->PutPredictionOutcome(outcome).ok());
  }
  const auto store = OpenStore(directory);
  const std::vector<v1::PredictionOutcome> outcomes = *store->ListPredictionOutcomes();
  REQUIRE(outcomes.size() == 100);
  for (size_t i = 0; i < outcomes.size(); ++i) CHECK(outcomes[i].launch() == 51 + i);
  CHECK(outcomes[0].predicted_step_seconds() == 51);
  CHECK(Same(outcomes.back(), outcome));
}

TEST_CASE("a profile never outgrows what its message may hold") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  for (uint32_t first = 1; first <= 97; first += 32) {
    std::vector<uint32_t> sizes(32);
    for (uint32_t i = 0; i < 32; ++i) sizes[i] = first + i;
    REQUIRE(store->PutProfile(ProfileOf("amx", "tiny", sizes, 1)).ok());
    CHECK(store->FindProfile("amx", "tiny", sizes).ok());
  }
  CHECK(store->ListProfiles()->at(0).times_size() == 64);
}

TEST_CASE("a link is the same from both ends") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  v1::LinkProfile link;
  link.set_a("b/cpu0");
  link.set_b("a/cpu0");
  link.set_bytes_per_second(1e9);
  REQUIRE(store->PutLink(link).ok());
  REQUIRE(store->ListLinks()->size() == 1);
  CHECK(Same(store->ListLinks()->at(0), link));
  std::swap(*link.mutable_a(), *link.mutable_b());
  link.set_bytes_per_second(2e9);
  REQUIRE(store->PutLink(link).ok());
  REQUIRE(store->ListLinks()->size() == 1);
  CHECK(Same(store->ListLinks()->at(0), link));
  // With protected messages it is a link of its own.
  v1::LinkProfile encrypted = link;
  encrypted.set_message_protection(v1::MESSAGE_PROTECTION_ENCRYPTION);
  encrypted.set_bytes_per_second(1e6);
  REQUIRE(store->PutLink(encrypted).ok());
  REQUIRE(store->ListLinks()->size() == 2);
  CHECK(Same(store->ListLinks()->at(0), link));
  CHECK(Same(store->ListLinks()->at(1), encrypted));
}

TEST_CASE("everything is there after the store was closed and opened again") {
  const TemporaryDirectory directory;
  v1::Job job;
  v1::Trace trace;
  v1::LinkProfile link;
  link.set_a("a/x");
  link.set_b("b/x");
  uint64_t attempt = 0;
  {
    const auto store = OpenStore(directory);
    job = *store->InsertJob(SpecNamed("gpt"), "request", 1);
    job.set_state(v1::JOB_STATE_RECOVERING);
    job.set_state_reason("a/cpu0 was lost");
    job.set_checkpoint_path("/checkpoints/gpt-1/step-50");
    job.mutable_plan()->set_description("1 route");
    trace.set_job_id(job.id());
    trace.set_step(4);
    REQUIRE(store->UpdateJob(job).ok());
    REQUIRE(store->AppendSteps(job.id(), {Step(1, 2.5)}).ok());
    v1::ValidationMetrics validation;
    validation.set_step(1);
    REQUIRE(store->AppendValidations(job.id(), {validation}).ok());
    REQUIRE(store->AppendLogs(job.id(), {Line("hello")}).ok());
    REQUIRE(store->PutTrace(trace).ok());
    REQUIRE(store->PutProfile(ProfileOf("amx", "tiny", {1}, 1)).ok());
    REQUIRE(store->PutLink(link).ok());
    attempt = *store->NextAttempt();
  }
  const auto store = OpenStore(directory);
  CHECK(Same(*store->GetJob(job.id()), job));
  CHECK(IdsOf(*store->UnfinishedJobs()) == std::vector<std::string>{job.id()});
  CHECK(store->InsertJob(SpecNamed("gpt"), "request", 2)->id() == job.id());
  CHECK(store->InsertJob(SpecNamed("gpt"), "", 2)->id() == "gpt-2");
  CHECK(Same(store->ListSteps(job.id(), 0)->at(0), Step(1, 2.5)));
  CHECK(store->ListValidations(job.id(), 0)->size() == 1);
  CHECK(store->ListLogs(job.id(), 10)->at(0).text() == "hello");
  CHECK(Same(*store->GetTrace(job.id()), trace));
  CHECK(Same(store->ListProfiles()->at(0), ProfileOf("amx", "tiny", {1}, 1)));
  CHECK(Same(store->ListLinks()->at(0), link));
  CHECK(*store->NextAttempt() == attempt + 1);
}

TEST_CASE("the store makes its directory and the way to it") {
  const TemporaryDirectory directory;
  const std::string deep = directory.path() + "/var/lib/medley/";
  REQUIRE(Store::Open(deep).ok());
  CHECK(std::filesystem::exists(deep + "medley.db"));
}

TEST_CASE("a join token is changed as a whole or not at all, and forgotten after its time") {
  const TemporaryDirectory directory;
  v1::JoinTokenRecord record;
  const auto insert = [&](const std::string& id, double expires_at_seconds, double forget_before_seconds) {
    record.mutable_token()->set_id(id);
    record.mutable_token()->set_expires_at_seconds(expires_at_seconds);
    return OpenStore(directory)->InsertJoinToken(record, forget_before_seconds);
  };
  REQUIRE(insert("a", 100, 0).ok());
  REQUIRE(insert("b", 200, 0).ok());
  CHECK(absl::IsAlreadyExists(insert("b", 300, 0)));
  const auto use = [&](const std::string& id, const absl::Status& result) {
    return OpenStore(directory)->ChangeJoinToken(id, [&](v1::JoinTokenRecord& one) {
      one.mutable_token()->set_used_by(one.token().used_by() + "x");
      return result;
    });
  };
  CHECK(absl::IsNotFound(use("c", absl::OkStatus())));
  CHECK(absl::IsPermissionDenied(use("a", absl::PermissionDeniedError("no"))));
  REQUIRE(use("a", absl::OkStatus()).ok());
  const std::vector<v1::JoinTokenRecord> both = *OpenStore(directory)->ListJoinTokens();
  REQUIRE(both.size() == 2);
  CHECK(both[0].token().id() == "b");
  CHECK(both[1].token().used_by() == "x");
  REQUIRE(insert("c", 300, 150).ok());
  CHECK(OpenStore(directory)->ListJoinTokens()->size() == 2);
  CHECK(absl::IsNotFound(use("a", absl::OkStatus())));
}

}  // namespace
}  // namespace medley

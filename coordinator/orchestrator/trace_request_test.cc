#include "coordinator/orchestrator/trace_request.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "coordinator/orchestrator/fake_agents.h"

namespace medley {
namespace {

// A job of two ranks, at steps that a test says, whose ranks take what they have not begun.
struct Site {
  v1::Job job;
  FakeAgents agents;
  LiveTrace live{2};
  std::map<std::string, uint32_t> at = {{"job/1/0", 7}, {"job/1/1", 8}};
  std::vector<v1::TraceTaskRequest> asked;
  uint32_t steps_between_calls = 0;
  std::vector<v1::TraceStepsUpdate> updates;

  Site() {
    job.set_id("job");
    job.mutable_spec()->set_steps(100);
    for (const char* task : {"job/1/0", "job/1/1"}) {
      job.add_tasks()->set_task_id(task);
      job.mutable_tasks()->rbegin()->set_device(std::string("n/") + task);
    }
    agents.SetTraceAnswer(
        [this](const v1::TraceTaskRequest& request) -> absl::StatusOr<v1::TraceTaskResponse> {
          asked.push_back(request);
          uint32_t& step = at[request.task_id()];
          v1::TraceTaskResponse answer;
          answer.set_current_step(step);
          answer.set_accepted(request.steps() > 0 && request.first_step() > step);
          // All ranks are told before they get on.
          if (request.task_id() == "job/1/1")
            for (auto& [task, now] : at) now += steps_between_calls;
          return answer;
        });
  }
  // What the ranks would say of steps that they were asked for.
  void Train(uint32_t first, uint32_t last) {
    for (uint32_t step = first; step <= last; ++step) {
      v1::Trace trace;
      trace.set_step(step);
      live.Add(trace);
    }
    for (const int rank : {0, 1}) live.Finished(rank, last);
  }
  absl::Status Serve(uint32_t steps,
                     const std::function<void(const v1::TraceStepsUpdate&)>& first = nullptr) {
    return ServeTrace(
        job, steps, agents, live,
        [&](const v1::TraceStepsUpdate& update) {
          updates.push_back(update);
          if (updates.size() == 1 && first) first(update);
          return true;
        },
        [] { return false; });
  }
};

TEST_CASE("tracing begins with a step that no rank has begun, and every step is handed on") {
  Site site;
  REQUIRE(site.Serve(3,
                     [&](const v1::TraceStepsUpdate& agreed) {
                       CHECK(agreed.first_step() == 9);
                       CHECK(agreed.steps() == 3);
                       site.Train(9, 11);
                     })
              .ok());
  REQUIRE(site.updates.size() == 4);
  for (uint32_t i = 0; i < 3; ++i) CHECK(site.updates[i + 1].trace().step() == 9 + i);
}

TEST_CASE("ranks that get on while they are asked are asked again, further ahead each time") {
  Site site;
  site.steps_between_calls = 5;
  REQUIRE(site.Serve(2,
                     [&](const v1::TraceStepsUpdate& agreed) {
                       CHECK(agreed.first_step() > 8 + 5);
                       site.Train(agreed.first_step(), agreed.first_step() + 1);
                     })
              .ok());
  CHECK(site.updates.size() == 3);
}

TEST_CASE("of a job that ends soon its last steps are traced, and of one that ends now none") {
  Site site;
  site.job.mutable_spec()->set_steps(10);
  REQUIRE(site.Serve(50,
                     [&](const v1::TraceStepsUpdate& agreed) {
                       CHECK(agreed.steps() == 2);
                       site.Train(9, 10);
                     })
              .ok());
  site.job.mutable_spec()->set_steps(8);
  const absl::Status refused = site.Serve(1);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("ends with step 8"));
}

TEST_CASE("steps that did not come are told with the next ones") {
  Site site;
  REQUIRE(site.Serve(5,
                     [&](const v1::TraceStepsUpdate&) {
                       v1::Trace trace;
                       trace.set_step(11);
                       site.live.Add(trace);
                       for (const int rank : {0, 1}) site.live.Finished(rank, 13);
                     })
              .ok());
  REQUIRE(site.updates.size() == 2);
  CHECK(site.updates[1].lost_steps() == 4);
}

TEST_CASE("a step of many ranks comes in parts, none of them much larger than one rank's times") {
  Site site;
  REQUIRE(site.Serve(1,
                     [&](const v1::TraceStepsUpdate& agreed) {
                       v1::Trace trace;
                       trace.set_step(agreed.first_step());
                       for (int rank = 0; rank < 5; ++rank)
                         trace.add_lanes()->set_device(std::string(400'000, static_cast<char>('a' + rank)));
                       site.live.Add(trace);
                       for (const int rank : {0, 1}) site.live.Finished(rank, agreed.first_step());
                     })
              .ok());
  REQUIRE(site.updates.size() == 1 + 3);
  std::string ranks;
  for (size_t i = 1; i < site.updates.size(); ++i) {
    CHECK(site.updates[i].ByteSizeLong() < 1'100'000);
    CHECK(site.updates[i].trace().step() == 9);
    for (const v1::TraceLane& lane : site.updates[i].trace().lanes()) ranks += lane.device()[0];
  }
  CHECK(ranks == "abcde");
}

TEST_CASE("after an attempt's end, and when nobody reads any more, the ranks are told to trace no more") {
  Site site;
  CHECK(site.Serve(5, [&](const v1::TraceStepsUpdate&) { site.live.End(absl::AbortedError("it died")); }) ==
        absl::AbortedError("it died"));
  CHECK(site.asked.back().steps() == 0);
  Site left;
  CHECK(absl::IsCancelled(ServeTrace(
      left.job, 5, left.agents, left.live, [](const v1::TraceStepsUpdate&) { return true; },
      [] { return true; })));
  CHECK(left.asked.back().steps() == 0);
  CHECK(left.asked[left.asked.size() - 3].steps() == 5);
}

TEST_CASE("an agent that does not answer is named") {
  Site site;
  site.agents.SetTraceAnswer(
      [](const v1::TraceTaskRequest& request) -> absl::StatusOr<v1::TraceTaskResponse> {
        if (request.task_id() == "job/1/1") return absl::UnavailableError("connection refused");
        return v1::TraceTaskResponse();
      });
  const absl::Status refused = site.Serve(5);
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("n/job/1/1 cannot be traced") && Catch::Contains("connection refused"));
  CHECK(site.updates.empty());
}

}  // namespace
}  // namespace medley

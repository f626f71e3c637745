#include "coordinator/orchestrator/live_trace.h"

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/base/clock.h"

namespace medley {
namespace {

v1::Trace Step(uint32_t step, size_t bytes = 0) {
  v1::Trace trace;
  trace.set_step(step);
  trace.set_job_id(std::string(bytes, 'x'));
  return trace;
}

LiveTrace::News Next(LiveTrace& live) {
  absl::StatusOr<LiveTrace::News> news = live.Await(absl::InfinitePast());
  REQUIRE(news.ok());
  return *std::move(news);
}

TEST_CASE("steps come in their order, and it is done when every rank has finished") {
  LiveTrace live(2);
  live.Add(Step(4));  // before anybody asked
  live.Begin(5, 2);
  live.Add(Step(4));
  live.Add(Step(5));
  CHECK(Next(live).trace->step() == 5);
  CHECK_FALSE(Next(live).trace);
  live.Add(Step(6));
  live.Add(Step(7));  // was not asked for
  live.Finished(0, 6);
  const LiveTrace::News last = Next(live);
  CHECK(last.trace->step() == 6);
  CHECK_FALSE(last.done);
  live.Finished(1, 6);
  const LiveTrace::News end = Next(live);
  CHECK(end.done);
  CHECK_FALSE(end.trace);
  CHECK(end.lost_steps == 0);
}

TEST_CASE("steps of which a rank's times are missing are counted, also at the end") {
  LiveTrace live(1);
  live.Begin(10, 5);
  live.Add(Step(12));
  const LiveTrace::News news = Next(live);
  CHECK(news.trace->step() == 12);
  CHECK(news.lost_steps == 2);
  live.Finished(0, 14);
  const LiveTrace::News end = Next(live);
  CHECK(end.lost_steps == 2);
  CHECK(end.done);
}

TEST_CASE("what nobody fetches is bounded, and one step always has room") {
  LiveTrace live(1, /*most_waiting_bytes=*/1000);
  live.Begin(1, 4);
  live.Add(Step(1, 2000));
  live.Add(Step(2, 10));
  live.Add(Step(3, 10));
  const LiveTrace::News news = Next(live);
  CHECK(news.trace->step() == 1);
  CHECK(news.lost_steps == 2);
  live.Add(Step(4, 900));
  CHECK(Next(live).trace->step() == 4);
}

TEST_CASE("steps that are asked for anew take the place of those before") {
  LiveTrace live(1);
  live.Begin(3, 1);
  live.Add(Step(3));
  live.Begin(8, 1);
  live.Finished(0, 3);
  CHECK_FALSE(Next(live).done);
  live.Add(Step(8));
  live.Finished(0, 8);
  const LiveTrace::News news = Next(live);
  CHECK(news.trace->step() == 8);
  CHECK(news.done);
}

TEST_CASE("an attempt's end is told after what came before it, also to who waits already") {
  LiveTrace live(1);
  live.Begin(1, 9);
  live.Add(Step(1));
  live.End(absl::AbortedError("the worker died"));
  live.End(absl::AbortedError("later"));
  CHECK(Next(live).trace->step() == 1);
  CHECK(live.Await(absl::InfinitePast()).status() == absl::AbortedError("the worker died"));
  LiveTrace waited(1);
  std::thread ends([&] { waited.End(absl::AbortedError("gone")); });
  CHECK(waited.Await(Now() + absl::Minutes(1)).status().message() == "gone");
  ends.join();
}

}  // namespace
}  // namespace medley

#include "agent/supervisor/event_log.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::WorkerEvent Line(const std::string& text) {
  v1::WorkerEvent event;
  event.set_log(text);
  return event;
}
v1::WorkerEvent Step(uint32_t step) {
  v1::WorkerEvent event;
  event.mutable_step()->set_step(step);
  return event;
}

TEST_CASE("events are numbered from 1 and come again from any number on") {
  EventLog log;
  CHECK(log.After(0, 10).empty());
  for (uint32_t step = 1; step <= 5; ++step) log.Add(Step(step));
  CHECK(log.newest() == 5);
  const std::vector<v1::WorkerEvent> after = log.After(2, 10);
  REQUIRE(after.size() == 3);
  CHECK(after.front().number() == 3);
  CHECK(after.front().step().step() == 3);
  CHECK(log.After(2, 2).size() == 2);
  CHECK(log.After(5, 10).empty());
  CHECK(log.After(99, 10).empty());
}

TEST_CASE("of each kind the newest stay, and many lines push no step out") {
  EventLog log({.lines = 3, .measured = 1, .others = 4});
  log.Add(Step(1));
  for (int i = 0; i < 100; ++i) log.Add(Line(std::to_string(i)));
  for (uint32_t step = 7; step <= 9; ++step) {
    v1::WorkerEvent measured;
    measured.mutable_measured()->set_step(step);
    log.Add(measured);
  }
  v1::WorkerEvent last;
  last.mutable_finished();
  log.Add(last);
  const std::vector<v1::WorkerEvent> kept = log.After(0, 1000);
  REQUIRE(kept.size() == 1 + 1 + 3 + 1 + 1);
  CHECK(kept[0].step().step() == 1);
  CHECK(kept[1].log() ==
        "lines of this worker were dropped here: the newest 3 are kept while nobody listens");
  CHECK(kept[2].log() == "97");
  CHECK(kept[5].measured().step() == 9);
  CHECK(kept[6].has_finished());
  CHECK(kept[6].number() == log.newest());
  CHECK(log.After(kept[1].number(), 1000).front().log() == "97");  // heard all that was dropped
  for (uint32_t step = 10; step <= 20; ++step) log.Add(Step(step));
  CHECK(log.After(log.newest() - 100, 1000).size() == 1 + 3 + 1 + 4);
}

}  // namespace
}  // namespace medley

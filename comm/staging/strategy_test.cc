#include "comm/staging/strategy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace medley {
namespace {

EndMemory Device(bool reached = false, CopyCosts copies = {{10e-6, 25e9}, {10e-6, 25e9}}) {
  return {.host_reaches = false, .network_reaches = reached, .copies = copies};
}

StrategyQuestion Question(const EndMemory& source, const EndMemory& destination, int64_t bytes) {
  return {.source = source, .destination = destination, .link = LinkModel::Line(20e-6, 10e9), .bytes = bytes};
}

TEST_CASE("between hosts' memories the link is all there is") {
  const StrategyChoice choice = ChooseStrategy(Question({}, {}, 1 << 20)).value();
  CHECK(choice.source == Handling::kHost);
  CHECK(choice.destination == Handling::kHost);
  CHECK(choice.chunk_bytes == 1 << 20);
  CHECK(choice.candidates.empty());
  CHECK(choice.seconds == Approx(20e-6 + (1 << 20) / 10e9).epsilon(1e-3));
}

TEST_CASE("small messages go in one chunk, large ones overlap: near the slowest of copies and link") {
  const StrategyChoice small = ChooseStrategy(Question(Device(), Device(), 4096)).value();
  CHECK(small.chunks == 1);
  CHECK(small.depth == 1);
  CHECK_THAT(small.reason, Catch::Contains("too short"));
  const int64_t bytes = int64_t{256} << 20;
  const StrategyChoice large = ChooseStrategy(Question(Device(), Device(), bytes)).value();
  CHECK(large.source == Handling::kStaged);
  CHECK(large.chunks > 8);
  CHECK(large.depth == 4);
  CHECK(large.seconds < 1.05 * bytes / 10e9);
  CHECK(large.seconds > bytes / 10e9);
  // Where the copies are the slowest, they set the pace.
  const EndMemory slow = Device(false, {{10e-6, 2e9}, {10e-6, 2e9}});
  const StrategyChoice bound = ChooseStrategy(Question(slow, {}, bytes)).value();
  CHECK(bound.seconds < 1.05 * bytes / 2e9);
  CHECK(bound.seconds > bytes / 2e9);
}

TEST_CASE("direct where both ends are reached, mixed where one is") {
  const StrategyChoice both = ChooseStrategy(Question(Device(true), Device(true), 1 << 24)).value();
  CHECK(both.source == Handling::kDirect);
  CHECK(both.chunks == 1);
  CHECK_THAT(both.reason, Catch::Contains("network reaches"));
  const StrategyChoice one = ChooseStrategy(Question(Device(true), Device(), 1 << 24)).value();
  CHECK(one.source == Handling::kDirect);
  CHECK(one.destination == Handling::kStaged);
  CHECK(one.chunks > 1);
  CHECK(both.seconds < one.seconds);
}

TEST_CASE("what is asked for is done, or refused with the end that cannot") {
  StrategyQuestion question = Question(Device(), Device(), 1 << 24);
  question.asked = DeviceMemoryStrategy::kWhole;
  const StrategyChoice whole = ChooseStrategy(question).value();
  CHECK(whole.source == Handling::kWhole);
  CHECK(whole.chunks == 1);
  CHECK(whole.seconds == Approx(30e-6 + 10e-6 + (1 << 24) * (2 / 25e9 + 1 / 10e9)).epsilon(1e-3));
  question.asked = DeviceMemoryStrategy::kDirect;
  question.source = Device(true);
  const absl::Status refused = ChooseStrategy(question).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("receiver") && Catch::Contains("device_memory"));
}

TEST_CASE("what is chosen is close to the best that is possible, over many devices and links", "[property]") {
  std::mt19937_64 random(4);
  const auto draw = [&](double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution<double>()(random));
  };
  for (int i = 0; i < 5000; ++i) {
    const auto copies = [&] {
      const CopyCost cost{draw(1e-6, 50e-6), draw(1e9, 60e9)};
      return CopyCosts{cost, cost};
    };
    StrategyQuestion question{
        .source = Device(random() % 2 == 0, copies()),
        .destination = random() % 3 == 0 ? EndMemory{} : Device(random() % 2 == 0, copies()),
        .link = LinkModel::Line(draw(1e-6, 1e-3), draw(1e8, 50e9)),
        .bytes = static_cast<int64_t>(draw(1, 1e9))};
    CAPTURE(i, question.bytes, question.link.LatencySeconds(), question.link.BytesPerSecond());
    const StrategyChoice choice = ChooseStrategy(question).value();
    for (const StrategyCandidate& candidate : choice.candidates) {
      CAPTURE(NameOf(candidate.strategy), candidate.seconds, choice.seconds, choice.chunks);
      if (candidate.objection.empty()) REQUIRE(choice.seconds <= 1.3 * candidate.seconds + 1e-9);
    }
    REQUIRE(choice.seconds >= question.link.Seconds(question.bytes) - 1e-12);
    REQUIRE(choice.chunk_bytes * choice.chunks >= question.bytes);
    REQUIRE(choice.chunk_bytes * (choice.chunks - 1) < question.bytes);
  }
}

TEST_CASE("the explanation has what is done, why, and every candidate") {
  const StrategyQuestion question = Question(Device(), {}, 16 << 20);
  const std::string text = Explain(question, ChooseStrategy(question).value());
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("16.0 MiB: staged to host") && Catch::Contains("chunks of") &&
                       Catch::Contains("does not reach") && Catch::Contains("whole ") &&
                       Catch::Contains("direct "));
}

TEST_CASE("a link between memories is the link with its copies, at any size") {
  const StrategyQuestion question = Question(Device(), Device(), 0);
  const LinkModel model = LinkBetweenMemories(question).value();
  REQUIRE(CheckLinkModel(model).ok());
  CHECK(model.points.size() <= 64);
  for (const int64_t bytes : {5000, 70'000, 1'000'000, 9'000'000, 300'000'000}) {
    CAPTURE(bytes);
    const double exact = ChooseStrategy(Question(Device(), Device(), bytes)).value().seconds;
    CHECK(model.Seconds(static_cast<double>(bytes)) == Approx(exact).epsilon(0.05));
    CHECK(exact > question.link.Seconds(static_cast<double>(bytes)));
  }
  CHECK(model.BytesPerSecond() == Approx(10e9).epsilon(0.05));
}

}  // namespace
}  // namespace medley

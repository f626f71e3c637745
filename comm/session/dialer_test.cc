#include "comm/session/dialer.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

constexpr absl::Duration kLater = absl::Milliseconds(1);
const Endpoint kFirst{false, {10, 0, 0, 1}, 1}, kSecond{false, {10, 0, 0, 2}, 2};

TEST_CASE("endpoints are tried one at a time, round and round with a pause") {
  Dialer dialer(3, {kFirst, kSecond});
  absl::Duration now;
  CHECK(dialer.Next(now) == kFirst);
  CHECK(dialer.Next(now) == std::nullopt);
  dialer.Failed(absl::DeadlineExceededError("slow"), now);
  CHECK(dialer.last_failure() == "slow at 10.0.0.1:1");
  CHECK(dialer.Next(now) == kSecond);
  dialer.Failed(absl::AbortedError("cut"), now);
  CHECK(dialer.Next(now) == std::nullopt);
  now += Dialer::kPause;
  CHECK(dialer.Next(now) == kFirst);
  CHECK(dialer.verdict().ok());
}

TEST_CASE("a refusal ends it, but only once the other endpoints were tried") {
  Dialer dialer(3, {kFirst, kSecond});
  CHECK(dialer.Next(kLater) == kFirst);
  dialer.Failed(absl::PermissionDeniedError("no"), kLater);
  CHECK(dialer.verdict().ok());
  CHECK(dialer.Next(kLater) == kSecond);
  dialer.Failed(absl::DeadlineExceededError("slow"), kLater);
  CHECK(dialer.verdict() == absl::PermissionDeniedError("no"));
  CHECK(dialer.Next(absl::Seconds(9)) == std::nullopt);
}

TEST_CASE("a peer that is nowhere ends it after a while, a slow one does not") {
  const bool is_slow = GENERATE(false, true);
  Dialer dialer(3, {kFirst, kSecond});
  absl::Duration now;
  int rounds = 0;
  for (; rounds < 200 && dialer.verdict().ok(); ++rounds) {
    REQUIRE(dialer.Next(now) == kFirst);
    dialer.Failed(absl::UnavailableError("connection refused"), now);
    REQUIRE(dialer.Next(now) == kSecond);
    dialer.Failed(is_slow ? absl::DeadlineExceededError("slow") : absl::NotFoundError("somebody else"), now);
    now += Dialer::kPause;
  }
  if (is_slow) {
    CHECK(rounds == 200);
  } else {
    CHECK(rounds == 1 + Dialer::kPatience / Dialer::kPause);
    CHECK(dialer.verdict() ==
          absl::UnavailableError("rank 3 cannot be reached: connection refused at 10.0.0.1:1; "
                                 "somebody else at 10.0.0.2:2"));
  }
}

TEST_CASE("a peer without endpoints cannot be reached") {
  CHECK(absl::IsUnavailable(Dialer(3, {}).verdict()));
}

}  // namespace
}  // namespace medley

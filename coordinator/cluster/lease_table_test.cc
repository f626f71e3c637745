#include "coordinator/cluster/lease_table.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>

namespace medley {
namespace {

const absl::Duration kLease = absl::Seconds(10);
absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST_CASE("a lease ends one lease after its last renewal, and is told once") {
  LeaseTable table(kLease);
  CHECK(table.NextEnd() == absl::InfiniteFuture());
  REQUIRE(table.Register({"a", "a:1", 7}, At(0)).value() == Registration::kNew);
  REQUIRE(table.Renew("a", 7, At(9)).ok());
  CHECK(table.NextEnd() == At(19));
  CHECK(table.Expire(At(18.999)).empty());
  CHECK(table.Expire(At(19)) == std::vector<std::string>{"a"});
  CHECK(table.Expire(At(30)).empty());
}

TEST_CASE("a renewal that is too late, unknown or of another incarnation is refused") {
  LeaseTable table(kLease);
  REQUIRE(table.Register({"a", "a:1", 7}, At(0)).ok());
  CHECK(absl::IsNotFound(table.Renew("b", 7, At(1))));
  CHECK(absl::IsNotFound(table.Renew("a", 8, At(1))));
  CHECK(absl::IsNotFound(table.Renew("a", 7, At(10))));
  CHECK(table.Expire(At(10)) == std::vector<std::string>{"a"});
}

TEST_CASE("a live name cannot be taken from another address") {
  LeaseTable table(kLease);
  REQUIRE(table.Register({"a", "here:1", 7}, At(0)).ok());
  const absl::Status taken = table.Register({"a", "there:1", 8}, At(5)).status();
  REQUIRE(absl::IsAlreadyExists(taken));
  CHECK_THAT(std::string(taken.message()), Catch::Contains("here:1") && Catch::Contains("there:1"));
  CHECK(table.Renew("a", 7, At(5)).ok());
  CHECK(table.Register({"a", "there:1", 8}, At(15)).value() == Registration::kReplaced);
  CHECK(absl::IsNotFound(table.Renew("a", 7, At(16))));
}

TEST_CASE("a registration says whether someone's work is lost") {
  LeaseTable table(kLease);
  REQUIRE(table.Register({"a", "a:1", 7}, At(0)).value() == Registration::kNew);
  CHECK(table.Register({"a", "a:1", 7}, At(5)).value() == Registration::kRepeated);
  CHECK(table.NextEnd() == At(15));
  CHECK(table.Register({"a", "a:1", 8}, At(6)).value() == Registration::kReplaced);
  // Too late, though nobody has called Expire: the old life is over.
  CHECK(table.Register({"a", "a:1", 8}, At(16)).value() == Registration::kReplaced);
  REQUIRE(table.Expire(At(60)).size() == 1);
  CHECK(table.Register({"a", "a:1", 8}, At(61)).value() == Registration::kNew);
}

TEST_CASE("every life that was registered and is over is told exactly once", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  LeaseTable table(kLease);
  struct Life {
    uint64_t incarnation = 0;
    absl::Time renewed;
  };
  std::map<std::string, Life> model;
  absl::Time now = At(0);
  for (int i = 0; i < 200; ++i) {
    now += absl::Milliseconds(random() % 4000);
    const std::string name(1, static_cast<char>('a' + random() % 3));
    const uint64_t incarnation = random() % 3;
    const auto life = model.find(name);
    const bool held = life != model.end() && now - life->second.renewed < kLease;
    CAPTURE(i, name, incarnation);
    switch (random() % 4) {
      case 0: {
        const auto registered = table.Register({name, name + ":1", incarnation}, now);
        REQUIRE(registered.ok());
        const bool repeated = held && life->second.incarnation == incarnation;
        CHECK(*registered == (life == model.end() ? Registration::kNew
                              : repeated          ? Registration::kRepeated
                                                  : Registration::kReplaced));
        model[name] = {incarnation, now};
        break;
      }
      case 1: {
        const auto ended = table.Expire(now);
        std::vector<std::string> expected;
        for (const auto& [other, its] : model) {
          if (now - its.renewed >= kLease) expected.push_back(other);
        }
        CHECK(ended == expected);
        for (const std::string& other : expected) model.erase(other);
        break;
      }
      default: {
        const bool renewable = held && life->second.incarnation == incarnation;
        CHECK(table.Renew(name, incarnation, now).ok() == renewable);
        if (renewable) life->second.renewed = now;
      }
    }
  }
}

TEST_CASE("leases are longer where many hold them, and as long as was promised where they were more") {
  CHECK(LeaseOf(absl::Seconds(6), 80) == absl::Seconds(6));
  CHECK(LeaseOf(absl::Seconds(6), 1000) == absl::Seconds(75));
  LeaseTable table(absl::Seconds(6));
  const int holders = 160;
  for (int i = 0; i < holders; ++i) REQUIRE(table.Register({absl::StrCat(i), "a:1", 1}, At(0)).ok());
  CHECK(table.lease() == absl::Seconds(12));
  REQUIRE(table.Renew("7", 1, At(5)).ok());
  CHECK(table.Expire(At(16)).size() == holders - 1);
  // It was told to renew every four seconds.
  REQUIRE(table.Renew("7", 1, At(16), absl::Seconds(12)).ok());
  CHECK(table.Expire(At(27)).empty());
  REQUIRE(table.Renew("7", 1, At(27)).ok());
  CHECK(table.Expire(At(33)) == std::vector<std::string>{"7"});
}

}  // namespace
}  // namespace medley

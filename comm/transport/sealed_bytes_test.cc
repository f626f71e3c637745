#include "comm/transport/sealed_bytes.h"

#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

constexpr SealKind kKind{"parcel", 0x11223344, 5, 100};

std::string WhyNot(const std::string& bytes) {
  const absl::StatusOr<std::string_view> body = Unseal(kKind, bytes);
  CHECK(absl::IsInvalidArgument(body.status()));
  return std::string(body.status().message());
}

TEST_CASE("a body survives the wire, an empty one too") {
  for (const std::string& body : {std::string(), std::string("a"), std::string(84, '\xff')}) {
    CAPTURE(body.size());
    const std::string bytes = Seal(kKind, body);
    const absl::StatusOr<std::string_view> back = Unseal(kKind, bytes);
    REQUIRE(back.ok());
    CHECK(*back == body);
  }
}

TEST_CASE("what was cut, lengthened or altered is refused, wherever") {
  const std::string bytes = Seal(kKind, "a body of some length");
  for (size_t size = 0; size < bytes.size(); ++size) WhyNot(bytes.substr(0, size));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string altered = bytes;
    altered[bit / 8] ^= static_cast<char>(1 << bit % 8);
    WhyNot(altered);
  }
  WhyNot(bytes + '\0');
}

TEST_CASE("it is said what is wrong") {
  CHECK(WhyNot("") == "parcel: cut to 0 bytes");
  CHECK(WhyNot(std::string(101, 'x')) == "parcel: 101 bytes, more than 100");
  CHECK(WhyNot(std::string(20, 'x')) == "parcel: does not begin as one");
  SealKind later = kKind;
  later.version = 6;
  CHECK(WhyNot(Seal(later, "body")) == "parcel: version is 6, not 5");
  std::string altered = Seal(kKind, "body");
  altered[9] = 'x';
  CHECK(WhyNot(altered) == "parcel: the checksum differs");
  CHECK(RefuseSealed(kKind, "too old").message() == "parcel: too old");
}

}  // namespace
}  // namespace medley

#include "comm/ucx/ucx_address.h"

#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

UcxAddress RandomAddress(std::mt19937_64& random) {
  const auto text = [&](size_t longest) {
    std::string bytes(random() % longest, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  return {random(),
          static_cast<int>(random() % 65536),
          {static_cast<int32_t>(random()), random()},
          text(500),
          "a" + text(2000),
          text(1000)};
}

TEST_CASE("an address survives the wire") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{50}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const UcxAddress address = RandomAddress(random);
  const absl::StatusOr<UcxAddress> back = DecodeAddress(EncodeAddress(address));
  REQUIRE(back.ok());
  CHECK(back->attempt == address.attempt);
  CHECK(back->rank == address.rank);
  CHECK(back->process == address.process);
  CHECK(back->host == address.host);
  CHECK(back->any == address.any);
  CHECK(back->network == address.network);
}

TEST_CASE("an address that was cut, lengthened, altered or made up is refused") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{500}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string bytes = EncodeAddress(RandomAddress(random));
  switch (seed % 4) {
    case 0:
      bytes.resize(random() % bytes.size());
      break;
    case 1:
      bytes += static_cast<char>(random());
      break;
    case 2:
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      break;
    case 3:
      // Past the checks of magic and version, into the lengths.
      bytes.resize(8 + random() % 200);
      for (size_t i = 8; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random());
  }
  CHECK(absl::IsInvalidArgument(DecodeAddress(bytes).status()));
}

TEST_CASE("an address says why it is refused") {
  CHECK_THAT(std::string(DecodeAddress("").status().message()), Catch::Contains("cut to 0 bytes"));
  CHECK_THAT(std::string(DecodeAddress(std::string(100, 'x')).status().message()),
             Catch::Contains("does not begin"));
  CHECK_THAT(std::string(DecodeAddress(std::string(70000, 'x')).status().message()),
             Catch::Contains("70000 bytes"));
  std::string later = EncodeAddress({1, 2, {3, 4}, "host", "address", ""});
  later[4] = 3;
  CHECK_THAT(std::string(DecodeAddress(later).status().message()), Catch::Contains("version is 3, not 2"));
  const std::string bare = EncodeAddress({1, 2, {3, 4}, "host", "", ""});
  CHECK_THAT(std::string(DecodeAddress(bare).status().message()), Catch::Contains("no worker address"));
}

}  // namespace
}  // namespace medley

#include "comm/session/session_address.h"

#include <catch2/catch.hpp>
#include <random>

#include "comm/session/interfaces.h"

namespace medley {
namespace {

Endpoint V4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port) { return {false, {a, b, c, d}, port}; }
Endpoint V6(uint8_t first, uint8_t last, uint16_t port) {
  Endpoint endpoint{true, {first}, port};
  endpoint.ip[15] = last;
  return endpoint;
}

SessionAddress RandomAddress(std::mt19937_64& random) {
  SessionAddress address{random(), static_cast<int>(random() % 65536), std::string(random() % 513, '\0')};
  for (char& byte : address.host) byte = static_cast<char>(random());
  for (uint64_t i = 0, count = 1 + random() % kMaximumEndpoints; i < count; ++i) {
    const auto byte = [&] { return static_cast<uint8_t>(1 + random() % 255); };
    const auto port = static_cast<uint16_t>(1 + random() % 65535);
    address.endpoints.push_back(random() % 2 ? V4(byte(), byte(), byte(), byte(), port)
                                             : V6(byte(), byte(), port));
  }
  return address;
}

TEST_CASE("an address survives the wire") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const SessionAddress address = RandomAddress(random);
  const std::string bytes = EncodeSessionAddress(address);
  CHECK(bytes.size() <= kMaximumSessionAddressBytes);
  const absl::StatusOr<SessionAddress> back = DecodeSessionAddress(bytes);
  INFO(back.status().ToString());
  REQUIRE(back.ok());
  CHECK(back->attempt == address.attempt);
  CHECK(back->rank == address.rank);
  CHECK(back->host == address.host);
  CHECK(back->endpoints == address.endpoints);
}

TEST_CASE("an address that was cut, lengthened, altered or made up is refused") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{500}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string bytes = EncodeSessionAddress(RandomAddress(random));
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
  CHECK(absl::IsInvalidArgument(DecodeSessionAddress(bytes).status()));
}

TEST_CASE("an address whose checksum is right and whose fields are not says which") {
  const SessionAddress good{1, 2, "host", {V4(10, 0, 0, 1, 99)}};
  const auto refused = [](const SessionAddress& address) {
    return std::string(DecodeSessionAddress(EncodeSessionAddress(address)).status().message());
  };
  CHECK(refused(good).empty());
  SessionAddress bad = good;
  bad.rank = 65536;
  CHECK_THAT(refused(bad), Catch::Contains("rank is 65536"));
  bad = good;
  bad.host = std::string(513, 'x');
  CHECK_THAT(refused(bad), Catch::Contains("513 bytes"));
  bad = good;
  bad.endpoints.clear();
  CHECK_THAT(refused(bad), Catch::Contains("0 endpoints"));
  bad.endpoints.assign(33, good.endpoints[0]);
  CHECK_THAT(refused(bad), Catch::Contains("33 endpoints"));
  for (const Endpoint& nowhere : {V4(0, 0, 0, 0, 9), V4(10, 0, 0, 1, 0), V6(0, 0, 9)}) {
    CAPTURE(nowhere.ToString());
    bad.endpoints = {nowhere};
    CHECK_THAT(refused(bad), Catch::Contains("is nowhere"));
  }
  Endpoint odd = V4(10, 0, 0, 1, 9);
  odd.ip[9] = 1;
  bad.endpoints = {odd};
  CHECK_THAT(refused(bad), Catch::Contains("unknown kind"));
  CHECK_THAT(std::string(DecodeSessionAddress(std::string(5000, 'x')).status().message()),
             Catch::Contains("5000"));
}

TEST_CASE("loopback is tried first on the same host, and not at all on another") {
  const Endpoint local = V4(127, 0, 0, 1, 5), local6 = V6(0, 1, 5), near = V4(10, 0, 0, 1, 5),
                 near6 = V6(0xFD, 2, 5);
  Endpoint mapped{true, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1}, 5};
  const SessionAddress address{1, 0, "here", {near, local, near6, local6, mapped}};
  CHECK(EndpointsToTry(address, "here") == std::vector<Endpoint>{local, local6, mapped, near, near6});
  CHECK(EndpointsToTry(address, "there") == std::vector<Endpoint>{near, near6});
}

TEST_CASE("endpoints are those of the named devices, of all without names") {
  const std::vector<InterfaceAddress> here = {{"lo", V4(127, 0, 0, 1, 0)},
                                              {"eth0", V4(10, 0, 0, 1, 0)},
                                              {"eth0", V6(0xFD, 1, 0)},
                                              {"ib0", V4(10, 1, 0, 1, 0)}};
  CHECK(SelectEndpoints(here, "")->size() == 4);
  CHECK(*SelectEndpoints(here, "eth0") == std::vector<Endpoint>{V4(10, 0, 0, 1, 0), V6(0xFD, 1, 0)});
  CHECK(*SelectEndpoints(here, "ib0,lo") == std::vector<Endpoint>{V4(127, 0, 0, 1, 0), V4(10, 1, 0, 1, 0)});
  for (const char* wrong : {"eth1", "eth0,", "eth0,eth", ","}) {
    CAPTURE(wrong);
    const absl::Status refused = SelectEndpoints(here, wrong).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(std::string(refused.message()), Catch::Contains("is no network device here"));
  }
  CHECK(absl::IsInvalidArgument(SelectEndpoints({}, "").status()));
  const auto read = ReadInterfaces();
  REQUIRE(read.ok());
  CHECK(SelectEndpoints(*read, "lo").ok());
}

}  // namespace
}  // namespace medley

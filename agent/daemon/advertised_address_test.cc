#include "agent/daemon/advertised_address.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::AgentConfig Config(const std::string& advertised, const std::string& listened = "0.0.0.0:0") {
  v1::AgentConfig config;
  config.set_advertise_address(advertised);
  config.set_listen_address(listened);
  return config;
}

TEST_CASE("others are told the host that is given, with its port or else the one that is listened at") {
  for (const auto& [given, told] :
       {std::pair("node1", "node1:40123"), std::pair("node1:7071", "node1:7071"),
        std::pair("node1:0", "node1:40123"), std::pair("10.0.0.5", "10.0.0.5:40123"),
        std::pair("[2001:db8::5]", "[2001:db8::5]:40123"),
        std::pair("[2001:db8::5]:7071", "[2001:db8::5]:7071")}) {
    CAPTURE(given);
    v1::AgentConfig config = Config(given);
    REQUIRE(CompleteAdvertisedAddress(config) == absl::OkStatus());
    CHECK(AdvertisedAddress(config, "0.0.0.0:40123") == told);
    CHECK(AdvertisedAddress(config, "[::]:40123") == told);
  }
  v1::AgentConfig config = Config("", "127.0.0.1:0");
  REQUIRE(CompleteAdvertisedAddress(config) == absl::OkStatus());
  CHECK(AdvertisedAddress(config, "127.0.0.1:40123") == "127.0.0.1:40123");
}

TEST_CASE("what is no address is refused by its field, and so is every address of the machine") {
  const auto refused = [](v1::AgentConfig config) {
    const absl::Status status = CompleteAdvertisedAddress(config);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  for (const char* wrong : {"2001:db8::5", "http://node1", "node1:70000", "node 1", "[2001:db8::5"}) {
    CHECK_THAT(refused(Config(wrong)), Catch::StartsWith("advertise_address: \"" + std::string(wrong)));
  }
  for (const char* all : {"0.0.0.0", "0.0.0.0:7071", "[::]", "[::]:7071"}) {
    CHECK_THAT(refused(Config(all)), Catch::StartsWith("advertise_address: \"" + std::string(all)) &&
                                         Catch::Contains("is every address of this machine"));
  }
  CHECK_THAT(refused(Config("", "[::]:7071")),
             Catch::StartsWith("advertise_address: is empty, and listen_address: \"[::]:7071\" is every"));
}

}  // namespace
}  // namespace medley

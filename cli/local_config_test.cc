#include "cli/local_config.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("an empty configuration is a coordinator and one agent") {
  const absl::StatusOr<v1::LocalClusterConfig> config = CompleteLocalCluster({}, "/d");
  REQUIRE(config.ok());
  CHECK(config->coordinator().listen_address() == "127.0.0.1:7070");
  CHECK(config->coordinator().address_file() == "/d/coordinator.address");
  CHECK(config->coordinator().state_directory() == "/d/state");
  REQUIRE(config->agents_size() == 1);
  CHECK(config->agents(0).name() == "local");
}

TEST_CASE("what the file says stays") {
  v1::LocalClusterConfig given;
  given.mutable_coordinator()->set_listen_address("127.0.0.1:0");
  given.add_agents()->set_name("a");
  given.add_agents();
  const absl::StatusOr<v1::LocalClusterConfig> config = CompleteLocalCluster(given, "/d");
  REQUIRE(config.ok());
  CHECK(config->coordinator().listen_address() == "127.0.0.1:0");
  CHECK(config->agents(0).name() == "a");
  CHECK(config->agents(1).name() == "local-1");
}

TEST_CASE("two agents of one name are refused") {
  v1::LocalClusterConfig given;
  given.add_agents()->set_name("local-1");
  given.add_agents();
  const absl::Status status = CompleteLocalCluster(given, "/d").status();
  CHECK(status.message() == "agents[1].name: \"local-1\" is there twice");
}

}  // namespace
}  // namespace medley

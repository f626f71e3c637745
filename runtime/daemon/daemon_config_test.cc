#include "runtime/daemon/daemon_config.h"

#include <catch2/catch.hpp>

#include "proto/medley/v1/config.pb.h"
#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

absl::Status Read(const std::string& file, std::vector<const char*> environment, v1::AgentConfig* config) {
  environment.push_back(nullptr);
  return ReadDaemonConfig(file, "MEDLEY_AGENT_", environment.data(), config);
}

std::string Refusal(const std::string& file, std::vector<const char*> environment) {
  v1::AgentConfig config;
  const absl::Status status = Read(file, std::move(environment), &config);
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("each field of a daemon's configuration may be a variable, which goes before the file") {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("agent.yaml", "name: of-file\nlinks: tcp\nnetwork_cards: 2\n");
  v1::AgentConfig config;
  REQUIRE(Read(file,
               {"PATH=/bin", "MEDLEY_AGENT_NAME=n-1", "MEDLEY_AGENT_LISTEN_ADDRESS=[::]:7071",
                "MEDLEY_AGENT_LOG_LEVEL=debug", "MEDLEY_AGENT_HOST_MEMORY_BYTES=4GiB",
                "MEDLEY_AGENT_SITE=hall 2", "MEDLEY_AGENT_NETWORK_DEVICES=[eth0, ib0]",
                "MEDLEY_AGENT_DEVICES=[{name: cuda0, backend: cuda, variant: \"0\"}]"},
               &config)
              .ToString() == "OK");
  CHECK(config.name() == "n-1");
  CHECK(config.links() == "tcp");
  CHECK(config.network_cards() == 2);
  CHECK(config.listen_address() == "[::]:7071");
  CHECK(config.log_level() == v1::LOG_LEVEL_DEBUG);
  CHECK(config.host_memory_bytes() == 4ULL << 30);
  CHECK(config.site() == "hall 2");
  REQUIRE(config.network_devices_size() == 2);
  CHECK(config.network_devices(1) == "ib0");
  REQUIRE(config.devices_size() == 1);
  CHECK(config.devices(0).backend() == "cuda");
}

TEST_CASE("text in a variable is taken as it is, whatever it would be in YAML") {
  v1::AgentConfig config;
  REQUIRE(Read("", {"MEDLEY_AGENT_COORDINATOR_ADDRESS=a: \"b\"\\n #c", "MEDLEY_AGENT_LINKS="}, &config)
              .ToString() == "OK");
  CHECK(config.coordinator_address() == "a: \"b\"\\n #c");
  CHECK(config.links().empty());
}

TEST_CASE("a variable that is wrong is refused by its name") {
  CHECK_THAT(
      Refusal("", {"MEDLEY_AGENT_LISTEN_ADRESS=0.0.0.0"}),
      Catch::Equals("MEDLEY_AGENT_LISTEN_ADRESS: is set in the environment, and is of no field; did you mean "
                    "MEDLEY_AGENT_LISTEN_ADDRESS?"));
  CHECK_THAT(Refusal("", {"MEDLEY_AGENT_network_cards=1"}),
             Catch::Contains("did you mean MEDLEY_AGENT_NETWORK_CARDS?"));
  CHECK_THAT(Refusal("", {"MEDLEY_AGENT_NETWORK_CARDS=two"}),
             Catch::StartsWith("MEDLEY_AGENT_NETWORK_CARDS=two: network_cards: "));
  CHECK_THAT(Refusal("", {"MEDLEY_AGENT_NETWORK_CARDS=65"}),
             Catch::StartsWith("MEDLEY_AGENT_NETWORK_CARDS=65: network_cards: 65 is not in "));
  const std::string site = "MEDLEY_AGENT_SITE=" + std::string(129, 's');
  CHECK_THAT(Refusal("", {site.c_str()}), Catch::Contains("site: ") && Catch::Contains("128"));
}

TEST_CASE(
    "a file with a field that had no effect and is no more is read as before, and what is unknown is not") {
  const TemporaryDirectory directory;
  v1::AgentConfig config;
  const std::string old = directory.Write("agent.yaml", "work_directory: /var/lib/medley/agent\nname: a\n");
  REQUIRE(Read(old, {"MEDLEY_AGENT_WORK_DIRECTORY=/tmp"}, &config).ToString() == "OK");
  CHECK(config.name() == "a");
  CHECK_THAT(Refusal(directory.Write("other.yaml", "work_folder: /var/lib/medley/agent\n"), {}),
             Catch::Contains("work_folder: unknown key"));
}

TEST_CASE("what Kubernetes sets for a service of a daemon's name is no configuration") {
  v1::AgentConfig config;
  CHECK(Read("",
             {"MEDLEY_AGENT_SERVICE_HOST=10.0.0.1", "MEDLEY_AGENT_PORT=tcp://10.0.0.1:7070",
              "MEDLEY_AGENT_PORT_7070_TCP_ADDR=10.0.0.1"},
             &config)
            .ToString() == "OK");
}

TEST_CASE("changed fields are named, whatever their type") {
  v1::AgentConfig before, after;
  before.set_name("a");
  before.add_network_devices("eth0");
  before.set_host_memory_bytes(1);
  after = before;
  CHECK(ChangedFields(before, after).empty());
  after.set_name("b");
  after.add_network_devices("eth1");
  after.add_devices()->set_name("cpu0");
  CHECK(ChangedFields(before, after) == std::vector<std::string>{"name", "devices", "network_devices"});
}

}  // namespace
}  // namespace medley

#include "coordinator/wire/node_codec.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>

namespace medley {
namespace {

v1::Node Parse(const std::string& text) {
  v1::Node node;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &node));
  return node;
}

TEST_CASE("a node survives the way in and out with everything that it says of itself") {
  const v1::Node node = Parse(R"(
    name: "a" agent_address: "10.0.0.1:7000" host: "rack1"
    devices { name: "cpu0" backend: "cpu" variant: "amx" cores: 0 cores: 1 memory_bytes: 1073741824
              kind: "cpu amx, 2 cores" computes_bf16: true }
    devices { name: "cpu1" backend: "reference" memory_bytes: 1048576 }
    devices { name: "gpu0" backend: "emulated" variant: "A100" memory_bytes: 1048576 kind: "emulated A100 1a"
              profile: "/etc/a100.yaml" emulated: true }
    devices { name: "arc0" backend: "opencl" memory_bytes: 17179869184 largest_buffer_bytes: 4294967296 }
    alive: true seconds_since_renewal: 2.5 jobs { key: "cpu0" value: "gpt-1" }
    host_memory_bytes: 68719476736 network_cards: 4 site: "north" rack: "r1"
    message_protection: MESSAGE_PROTECTION_CHECKSUM protects_messages: true)");
  const absl::StatusOr<NodeDescription> description = DecodeNode(node, 42);
  REQUIRE(description.ok());
  CHECK(description->incarnation == 42);
  CHECK(description->host_memory == GiB(64));
  CHECK(description->site == "north");
  CHECK(description->rack == "r1");
  CHECK(description->devices[0].description.cores == std::vector<int>{0, 1});
  CHECK(description->devices[3].description.largest_buffer == GiB(4));
  const v1::Node back = EncodeNode({.description = *description,
                                    .alive = true,
                                    .jobs = {{"cpu0", "gpt-1"}},
                                    .since_renewal = absl::Seconds(2.5)});
  CAPTURE(back.DebugString());
  CHECK(google::protobuf::util::MessageDifferencer::Equals(back, node));
}

TEST_CASE("a dead node says why") {
  const v1::Node node = EncodeNode(
      {.description = {.name = "a"}, .status = "gone for 11s", .since_renewal = absl::Seconds(11)});
  CHECK_FALSE(node.alive());
  CHECK(node.status() == "gone for 11s");
}

TEST_CASE("a node that cannot be told apart from others is refused with the field") {
  struct Case {
    std::string node, field;
  };
  const Case c = GENERATE(values<Case>({
      {R"()", "node.name"},
      {R"(name: "a/b")", "node.name"},
      {R"(name: "a" devices { name: "" })", "node.devices[0].name"},
      {R"(name: "a" devices { name: "x" } devices { name: "x/y" })", "node.devices[1].name"},
      {R"(name: "a" devices { name: "x" } devices { name: "x" })", "node.devices[1].name"},
      {R"(name: "a" devices { name: "x" memory_bytes: 18446744073709551615 })",
       "node.devices[0].memory_bytes"},
      {R"(name: "a" devices { name: "x" cores: 4294967295 })", "node.devices[0].cores"},
  }));
  CAPTURE(c.node);
  const absl::Status status = DecodeNode(Parse(c.node), 1).status();
  REQUIRE(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(c.field));
}

}  // namespace
}  // namespace medley

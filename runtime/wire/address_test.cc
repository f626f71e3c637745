#include "runtime/wire/address.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("an address without a port gets the default one") {
  CHECK(*CompleteAddress("--coordinator", "host", 7070) == "host:7070");
  CHECK(*CompleteAddress("--coordinator", "10.0.0.1", 7070) == "10.0.0.1:7070");
  CHECK(*CompleteAddress("--coordinator", "[::1]", 7070) == "[::1]:7070");
}

TEST_CASE("a whole address stays as it is") {
  for (const char* address : {"host:1", "my-host.example_a:65535", "[fe80::1%eth0]:7070", "0.0.0.0:7070"}) {
    CHECK(*CompleteAddress("x", address, 7070) == address);
  }
  CHECK(*CompleteAddress("listen_address", "0.0.0.0:0", 7070, AnyPort::kAllowed) == "0.0.0.0:0");
}

struct Wrong {
  std::string text, problem;
};

TEST_CASE("what is no address is refused by the field's name") {
  const Wrong wrong = GENERATE(
      Wrong{"", "is empty; write HOST:PORT"}, Wrong{"http://host:7070", "write HOST:PORT, without http://"},
      Wrong{"host:", "the port must be in [1, 65535]"}, Wrong{"host:0", "the port must be in [1, 65535]"},
      Wrong{"host:65536", "the port must be in [1, 65535]"},
      Wrong{"host:99999999999999", "the port must be in [1, 65535]"},
      Wrong{"host:7070/", "the port must be in [1, 65535]"},
      Wrong{"host:-1", "the port must be in [1, 65535]"},
      Wrong{":7070", "has no valid host; write HOST:PORT"},
      Wrong{"a b:7070", "has no valid host; write HOST:PORT"},
      Wrong{"::1", "an IPv6 address stands in brackets, as in [::1]:7070"},
      Wrong{"[::1", "has \"[\" without \"]\""}, Wrong{"[::1]7070", "write [HOST]:PORT"});
  CAPTURE(wrong.text);
  const absl::Status status = CompleteAddress("--coordinator", wrong.text, 7070).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == "--coordinator: \"" + wrong.text + "\": " + wrong.problem);
}

}  // namespace
}  // namespace medley

#include "runtime/base/can_listen.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

TEST_CASE("an address is free until somebody listens there, and free again after") {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(listener >= 0);
  sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(own);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&own), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(own.sin_port));
  const absl::Status in_use =
      absl::UnavailableError(absl::StrCat("here: cannot listen at ", address, ": Address already in use"));
  CHECK(CheckCanListen("here", address) == in_use);
  CHECK(CannotListen("here", address) == in_use);
  close(listener);
}

TEST_CASE("any free port of this machine can be listened at; another machine's address cannot") {
  const std::string free = "127.0.0.1:0";
  CHECK(CheckCanListen("here", free).ok());
  CHECK(CheckCanListen("here", free).ok());
  CHECK(CannotListen("here", free) ==
        absl::UnavailableError("here: cannot listen at 127.0.0.1:0; was it in use?"));
  CHECK(CheckCanListen("here", "192.0.2.1:0") ==
        absl::UnavailableError("here: cannot listen at 192.0.2.1:0: Cannot assign requested address"));
}

}  // namespace
}  // namespace medley

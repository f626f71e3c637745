#include "runtime/base/loopback.h"

#include <catch2/catch.hpp>

namespace medley {

TEST_CASE("loopback is what only this machine reaches, and not what is only called so") {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) CHECK(IsLoopbackHost(host));
  for (const char* host : {"127.example.com", "127.0.0.1.example.com", "127.", "", "::1", "0.0.0.0", "[::]",
                           "10.0.0.1", "localhost.example.com", "1270.0.0.1"})
    CHECK(!IsLoopbackHost(host));
  CHECK(HostOfAddress("127.0.0.1:7070") == "127.0.0.1");
  CHECK(HostOfAddress("[::1]:0") == "[::1]");
  CHECK(HostOfAddress("[::1]") == "[::1]");
  CHECK(HostOfAddress("name") == "name");
}

}  // namespace medley

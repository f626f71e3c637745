#include "cli/connection_error.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("why there is no coordinator is said without the transport's words") {
  CHECK(
      DescribeUnreachable(
          "127.0.0.1:7070",
          "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7070: Failed to "
          "connect to remote host: Connection refused") ==
      "no coordinator at 127.0.0.1:7070: connection refused. Start one (medley up), or set --coordinator or "
      "MEDLEY_COORDINATOR");
  CHECK(DescribeUnreachable(
            "nohost:7070",
            "DNS resolution failed for nohost:7070: C-ares status is not ARES_SUCCESS qtype=A name=nohost") ==
        "no coordinator at nohost:7070: host \"nohost\" is unknown. Set --coordinator or MEDLEY_COORDINATOR");
  CHECK(
      DescribeUnreachable(
          "a:1", "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:1: Some cause") ==
      "no coordinator at a:1: Some cause. Start one (medley up), or set --coordinator or MEDLEY_COORDINATOR");
  CHECK(DescribeUnreachable("a:1", "failed to connect to all addresses") ==
        "no coordinator at a:1: the connection failed. Start one (medley up), or set --coordinator or "
        "MEDLEY_COORDINATOR");
  CHECK(DescribeUnreachable("a:1", "something else {\"created\":1}") ==
        "no coordinator at a:1: something else. Start one (medley up), or set --coordinator or "
        "MEDLEY_COORDINATOR");
}

TEST_CASE("of a coordinator that falls silent it is said so") {
  CHECK(IsSilence("keepalive watchdog timeout"));
  CHECK(!IsSilence("Socket closed"));
  CHECK(DescribeUnreachable("a:1", "keepalive watchdog timeout") ==
        "the coordinator at a:1 no longer answers; --timeout SECONDS waits longer for a sign of it");
}

TEST_CASE("what is wrong with TLS is said as what it means") {
  const std::string prefix =
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7070: Ssl handshake failed: "
      "SSL_ERROR_SSL: error:0A000000:SSL routines::";
  CHECK(DescribeUnreachable("a:1", prefix + "wrong version number") ==
        "no coordinator at a:1: it does not speak TLS, and --certificates would have it do so");
  CHECK(DescribeUnreachable("a:1", prefix + "certificate verify failed") ==
        "no coordinator at a:1: its certificate is not by the authority of --certificates");
  CHECK(DescribeUnreachable("a:1", "Socket closed") ==
        "no coordinator at a:1: socket closed. Start one (medley up), or set --coordinator or "
        "MEDLEY_COORDINATOR. Where it asks for "
        "certificates, --certificates shows yours");
}

}  // namespace
}  // namespace medley

#include "cli/link_view.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/number_format.h"

namespace medley {
namespace {

v1::LinkProfile& AddLink(v1::ListLinksResponse& links, const std::string& a, const std::string& b,
                         double latency_seconds, double bytes_per_second) {
  v1::LinkProfile& link = *links.add_links();
  link.set_a(a);
  link.set_b(b);
  link.set_latency_seconds(latency_seconds);
  link.set_bytes_per_second(bytes_per_second);
  link.set_all_reduce_bytes_per_second(bytes_per_second / 2);
  link.set_transport("tcp");
  link.set_measured_at_seconds(1000);
  return link;
}

TEST_CASE("latencies and rates are as people say them") {
  CHECK(FormatLatency(3.2e-7) == "0.32 us");
  CHECK(FormatLatency(1.234e-5) == "12.3 us");
  CHECK(FormatLatency(9.999e-4) == "1.00 ms");
  CHECK(FormatLatency(2.512) == "2.51 s");
  CHECK(FormatLatency(0) == "-");
  CHECK(FormatBandwidth(7.61e9) == "7.6 GB/s");
  CHECK(FormatBandwidth(9.9999e8) == "1.0 GB/s");
  CHECK(FormatBandwidth(4.8e8) == "480 MB/s");
  CHECK(FormatBandwidth(1.2e4) == "12 kB/s");
  CHECK(FormatBandwidth(0) == "-");
  CHECK(FormatBandwidth(std::numeric_limits<double>::infinity()) == "-");
}

TEST_CASE("the matrix has latencies above and bandwidths below, and says what is not known") {
  v1::ListLinksResponse links;
  for (const char* device : {"a/cpu0", "b/cpu0", "b/cpu1"}) links.add_devices(device);
  AddLink(links, "b/cpu0", "a/cpu0", 1.23e-5, 7.6e9).set_provenance("UCX 1.13.1");
  AddLink(links, "a/cpu0", "b/cpu1", 1.23e-5, 7.6e9).set_measured_between("b/cpu0 - a/cpu0");
  CHECK(FormatLinks(links, 1000 + 3700) ==
        "        a/cpu0    b/cpu0   b/cpu1\n"
        "a/cpu0            12.3 us  12.3 us\n"
        "b/cpu0  7.6 GB/s           ?\n"
        "b/cpu1  7.6 GB/s  ?\n"
        "latency above the diagonal, bandwidth below it\n"
        "\n"
        "MEASURED BETWEEN  PAIRS  LATENCY  BANDWIDTH  OVER             AGE  WITH\n"
        "b/cpu0 - a/cpu0       2  12.3 us  7.6 GB/s   tcp   1 h 01 min ago  UCX 1.13.1\n"
        "\n"
        "1 pair has not been measured; the first job that may use them does it, and so does `medley links "
        "--refresh`\n");
}

TEST_CASE("many devices have no matrix, and one has no links") {
  v1::ListLinksResponse links;
  CHECK(FormatLinks(links, 0) == "fewer than two devices: there are no links\n");
  for (int i = 0; i < 13; ++i) links.add_devices(absl::StrCat("n", i, "/gpu0"));
  AddLink(links, "n0/gpu0", "n1/gpu0", 1e-6, 1e9);
  CHECK_THAT(FormatLinks(links, 2000), !Catch::Contains("diagonal") && Catch::Contains("n0/gpu0 - n1/gpu0") &&
                                           Catch::Contains("77 pairs have not been measured"));
}

TEST_CASE("on a narrow terminal the matrix has numbers, and none where they do not help") {
  v1::ListLinksResponse links;
  for (const char* device :
       {"laptop-avx512/cpu0", "laptop-avx2/cpu0", "laptop-sse41/cpu0", "laptop-amx/cpu0"}) {
    links.add_devices(device);
  }
  AddLink(links, "laptop-avx512/cpu0", "laptop-avx2/cpu0", 1e-6, 1e9).set_provenance(std::string(60, 'x'));
  const auto widest = [](const std::string& text) {
    size_t width = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) width = std::max(width, line.size());
    return width;
  };
  CHECK(widest(FormatLinks(links, 1000)) > 80);
  const std::string text = FormatLinks(links, 1000, 80);
  CHECK(widest(text) <= 80);
  CHECK_THAT(text, Catch::Contains("[4]\n") && Catch::Contains("\n[1] laptop-avx512/cpu0") &&
                       Catch::Contains("    with: xxx"));
  CHECK_THAT(FormatLinks(links, 1000, 30), !Catch::Contains("diagonal"));
}

TEST_CASE("a link by size follows its points, both one way and of an exchange") {
  v1::ListLinksResponse links;
  v1::LinkProfile& link = AddLink(links, "a/cpu0", "b/cpu0", 1e-5, 1e9);
  link.add_transfer()->set_seconds(2e-6);
  link.mutable_transfer()->rbegin()->set_bytes(0);
  link.add_transfer()->set_seconds(1e-3 + 2e-6);
  link.mutable_transfer()->rbegin()->set_bytes(1 << 20);
  link.set_measured_between("a/cpu0 - b/cpu1");
  const std::string text = FormatLink(link, 1010);
  CHECK_THAT(text, Catch::StartsWith("a/cpu0 - b/cpu0\n"));
  CHECK_THAT(text, Catch::Contains("1.00 ms  1.0 GB/s"));  // 1 MiB one way
  CHECK_THAT(text, Catch::Contains("2.11 ms") &&
                       Catch::Contains("498 MB/s"));  // exchanged over the line of half the rate
  CHECK_THAT(text, Catch::Contains("measured: 10 s ago\n") && Catch::Contains("between: a/cpu0 - b/cpu1\n") &&
                       Catch::Contains("over: tcp\n"));
  link.set_message_protection(v1::MESSAGE_PROTECTION_ENCRYPTION);
  CHECK_THAT(FormatLink(link, 1010), Catch::Contains("over: tcp, encryption\n"));
  links.add_devices("a/cpu0");
  links.add_devices("b/cpu0");
  CHECK_THAT(FormatLinks(links, 1010), Catch::Contains("tcp, encryption"));
}

TEST_CASE("what is taken of the ways to sum is marked, and what cannot be says why") {
  v1::AllReduceExplanation explanation;
  explanation.add_devices("a/cpu0");
  explanation.add_devices("b/cpu0");
  explanation.set_bytes(16 << 20);
  explanation.set_chosen(v1::ALL_REDUCE_ALGORITHM_HALVING_DOUBLING);
  v1::AllReduceCandidate* candidate = explanation.add_candidates();
  candidate->set_algorithm(v1::ALL_REDUCE_ALGORITHM_HALVING_DOUBLING);
  candidate->set_predicted_seconds(0.0125);
  candidate->set_shape("a/cpu0, b/cpu0");
  candidate = explanation.add_candidates();
  candidate->set_algorithm(v1::ALL_REDUCE_ALGORITHM_HIERARCHICAL);
  candidate->set_impossible("no boundary");
  CHECK(FormatAllReduce(explanation) ==
        "summing 16.0 MiB of f32 over 2 devices: halving_doubling\n"
        "   ALGORITHM         PREDICTED  HOW\n"
        "*  halving_doubling    12.5 ms  a/cpu0, b/cpu0\n"
        "   hierarchical              -  no boundary\n");
}

TEST_CASE("traffic is told by device, peer and operation; dropped messages once") {
  v1::Trace trace;
  trace.set_step(25);
  CHECK(FormatTraffic(trace) == "since the attempt began, until step 25\nnothing was sent between ranks\n");
  v1::TraceLane& lane = *trace.add_lanes();
  lane.set_device("a/cpu0");
  trace.add_lanes()->set_device("b/cpu0\x1b[2J");
  v1::PeerTraffic& traffic = *lane.add_traffic();
  traffic.set_peer(1);
  traffic.set_operation("activation");
  traffic.set_bytes_sent(2048);
  traffic.set_messages_sent(8);
  traffic.set_messages_received(9);
  traffic.set_wait_seconds(0.5);
  traffic.set_strategy("tcp");
  traffic.set_dropped_messages(3);
  CHECK(FormatTraffic(trace) ==
        "since the attempt began, until step 25\n"
        "DEVICE  PEER           OPERATION      SENT  RECEIVED  MESSAGES    WAITED  OVER\n"
        "a/cpu0  b/cpu0\\x1b[2J  activation  2.0 KiB       0 B     8 + 9  500.0 ms  tcp\n"
        "a/cpu0 dropped 3 messages of other attempts\n");
}

}  // namespace
}  // namespace medley

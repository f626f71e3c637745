#include "comm/transport/peer_set.h"

#include <catch2/catch.hpp>
#include <string>

namespace medley {
namespace {

TEST_CASE("peers are those that are named, or all others") {
  CHECK(*PeerSet(std::nullopt, 1, 4) == std::vector<bool>{true, false, true, true});
  CHECK(*PeerSet(std::vector<int>{3, 0}, 1, 4) == std::vector<bool>{true, false, false, true});
  CHECK(*PeerSet(std::vector<int>{}, 0, 2) == std::vector<bool>{false, false});
  const auto refused = [](const std::vector<int>& peers) {
    return std::string(PeerSet(peers, 1, 4).status().message());
  };
  CHECK(refused({0, 4}) == "peers[1] is 4, not in [0, 4) without this rank, 1");
  CHECK(refused({-1}) == "peers[0] is -1, not in [0, 4) without this rank, 1");
  CHECK(refused({1}) == "peers[0] is 1, not in [0, 4) without this rank, 1");
  CHECK(refused({2, 3, 2}) == "peers[2] is 2, which is there before");
}

}  // namespace
}  // namespace medley

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/transport.h"

namespace medley {

// All ranks of an attempt in this process, connected; for tests.
class TestCluster {
 public:
  virtual ~TestCluster() = default;
  virtual int size() const = 0;
  virtual Transport& rank(int rank) = 0;
  // Makes `rank` go as a crash would, as far as this kind of transport has it. Its Transport is then gone
  // too.
  virtual void Crash(int rank) = 0;

  // Runs `body` of every rank on a thread of its own, and returns what each returned, by rank.
  std::vector<absl::Status> OnEveryRank(const std::function<absl::Status(Transport&)>& body);
};

// One kind of transport that must hold the contract.
struct TransportUnderTest {
  static constexpr int kKinds = 9;
  std::string name;
  enum class Crashes { kAreNoticed, kAreNot } crashes;
  std::function<absl::StatusOr<std::unique_ptr<TestCluster>>(int size)> open;
};

// All kKinds of them: loopback, UCX over TCP, UCX over shared memory, the first and the last of them with late and
// overtaking messages, and both kinds of protected messages over overtaking loopback and over TCP.
std::vector<TransportUnderTest> AllTransports();

}  // namespace medley

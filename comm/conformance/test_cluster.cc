#include "comm/conformance/test_cluster.h"

#include <thread>
#include <utility>

#include "comm/loopback/loopback_fabric.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

class LoopbackCluster final : public TestCluster {
 public:
  explicit LoopbackCluster(int size) : fabric_(size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(fabric_.Join(rank));
  }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Transport& rank(int rank) override { return *ranks_[rank]; }
  void Crash(int rank) override {
    ranks_[rank].reset();
    fabric_.MarkGone(rank);
  }

 private:
  LoopbackFabric fabric_;
  std::vector<std::unique_ptr<Transport>> ranks_;
};

class UcxCluster final : public TestCluster {
 public:
  static absl::StatusOr<std::unique_ptr<TestCluster>> Open(UcxTransport::Links links, int size) {
    auto cluster = std::make_unique<UcxCluster>();
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      UcxTransport::Options options;
      options.epoch = 7;
      options.rank = rank;
      options.size = size;
      options.links = links;
      options.network_devices = links == UcxTransport::Links::kTcp ? "lo" : "";
      ASSIGN_OR_RETURN(cluster->ranks_.emplace_back(), UcxTransport::Create(options));
      addresses.push_back(cluster->ranks_.back()->address());
    }
    for (const std::unique_ptr<UcxTransport>& rank : cluster->ranks_) {
      RETURN_IF_ERROR(rank->Connect(addresses, absl::Now() + absl::Seconds(20)));
    }
    return cluster;
  }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Transport& rank(int rank) override { return *ranks_[rank]; }
  void Crash(int rank) override { ranks_[rank].reset(); }

 private:
  std::vector<std::unique_ptr<UcxTransport>> ranks_;
};

}  // namespace

std::vector<absl::Status> TestCluster::OnEveryRank(const std::function<absl::Status(Transport&)>& body) {
  std::vector<absl::Status> statuses(size());
  std::vector<std::thread> threads;
  for (int i = 0; i < size(); ++i) threads.emplace_back([&, i] { statuses[i] = body(rank(i)); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<TransportUnderTest> AllTransports() {
  using Crashes = TransportUnderTest::Crashes;
  return {
      {"loopback", Crashes::kAreNoticed,
       [](int size) -> absl::StatusOr<std::unique_ptr<TestCluster>> {
         return std::make_unique<LoopbackCluster>(size);
       }},
      {"ucx tcp", Crashes::kAreNoticed,
       [](int size) { return UcxCluster::Open(UcxTransport::Links::kTcp, size); }},
      {"ucx shared memory", Crashes::kAreNot,
       [](int size) { return UcxCluster::Open(UcxTransport::Links::kSharedMemory, size); }},
  };
}

}  // namespace medley

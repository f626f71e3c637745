#include "comm/conformance/test_cluster.h"

#include <thread>
#include <utility>

#include "comm/faulty/faulty_transport.h"
#include "comm/loopback/loopback_fabric.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Late by up to two milliseconds, so that messages of different tags overtake each other.
std::unique_ptr<Transport> WithFaults(std::unique_ptr<Transport> transport) {
  FaultOptions options;
  options.seed = 1;
  options.every_link.maximum_delay = absl::Milliseconds(2);
  return std::make_unique<FaultyTransport>(std::move(transport), options);
}

class LoopbackCluster final : public TestCluster {
 public:
  LoopbackCluster(int size, bool faulty) : fabric_(size) {
    for (int rank = 0; rank < size; ++rank) {
      ranks_.push_back(faulty ? WithFaults(fabric_.Join(rank)) : fabric_.Join(rank));
    }
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
  static absl::StatusOr<std::unique_ptr<TestCluster>> Open(UcxTransport::Links links, int size, bool faulty) {
    auto cluster = std::make_unique<UcxCluster>();
    std::vector<std::unique_ptr<UcxTransport>> ranks;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      UcxTransport::Options options;
      options.attempt = 7;
      options.rank = rank;
      options.size = size;
      options.links = links;
      options.network_devices = links == UcxTransport::Links::kTcp ? "lo" : "";
      ASSIGN_OR_RETURN(ranks.emplace_back(), UcxTransport::Create(options));
      addresses.push_back(ranks.back()->address());
    }
    for (const std::unique_ptr<UcxTransport>& rank : ranks) {
      RETURN_IF_ERROR(rank->Connect(addresses, Now() + absl::Seconds(20)));
    }
    for (std::unique_ptr<UcxTransport>& rank : ranks) {
      cluster->ranks_.push_back(faulty ? WithFaults(std::move(rank)) : std::move(rank));
    }
    return cluster;
  }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Transport& rank(int rank) override { return *ranks_[rank]; }
  void Crash(int rank) override { ranks_[rank].reset(); }

 private:
  std::vector<std::unique_ptr<Transport>> ranks_;
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
  using Links = UcxTransport::Links;
  const auto loopback = [](bool faulty) {
    return [faulty](int size) -> absl::StatusOr<std::unique_ptr<TestCluster>> {
      return std::make_unique<LoopbackCluster>(size, faulty);
    };
  };
  const auto ucx = [](Links links, bool faulty) {
    return [links, faulty](int size) { return UcxCluster::Open(links, size, faulty); };
  };
  return {
      {"loopback", Crashes::kAreNoticed, loopback(/*faulty=*/false)},
      {"ucx tcp", Crashes::kAreNoticed, ucx(Links::kTcp, /*faulty=*/false)},
      {"ucx shared memory", Crashes::kAreNot, ucx(Links::kSharedMemory, /*faulty=*/false)},
      {"faulty loopback", Crashes::kAreNoticed, loopback(/*faulty=*/true)},
      {"faulty ucx shared memory", Crashes::kAreNot, ucx(Links::kSharedMemory, /*faulty=*/true)},
  };
}

}  // namespace medley

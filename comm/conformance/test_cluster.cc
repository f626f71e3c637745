#include "comm/conformance/test_cluster.h"

#include <thread>
#include <utility>

#include "comm/faulty/faulty_transport.h"
#include "comm/loopback/loopback_fabric.h"
#include "comm/protected/protected_transport.h"
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

// Owns the transport whose messages it protects.
class Protected final : public Transport {
 public:
  static absl::StatusOr<std::unique_ptr<Transport>> Around(std::unique_ptr<Transport> inner,
                                                           MessageProtection protection) {
    if (protection == MessageProtection::kNone) return inner;
    auto made = std::make_unique<Protected>();
    made->inner_ = std::move(inner);
    ASSIGN_OR_RETURN(
        made->outer_,
        ProtectedTransport::Create(
            *made->inner_, {.protection = protection, .secret = "sixteen bytes or more", .attempt = 7}));
    return std::unique_ptr<Transport>(std::move(made));
  }
  int rank() const override { return outer_->rank(); }
  int size() const override { return outer_->size(); }
  bool IsPeer(int rank) const override { return outer_->IsPeer(rank); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory) override {
    return outer_->Send(peer, tag, bytes, memory);
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory) override {
    return outer_->Receive(peer, tag, bytes, memory);
  }
  void Abort(const std::string& reason) override { outer_->Abort(reason); }
  void MarkGone(int peer, const std::string& why) override { outer_->MarkGone(peer, why); }
  bool Reaches(MemoryType memory) const override { return outer_->Reaches(memory); }
  bool SharesMemory(int peer) const override { return outer_->SharesMemory(peer); }
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory) override {
    return outer_->Register(bytes, memory);
  }
  std::vector<PeerTraffic> Traffic() const override { return outer_->Traffic(); }
  uint64_t DroppedMessages() const override { return outer_->DroppedMessages(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::unique_ptr<ProtectedTransport> outer_;
};

class LoopbackCluster final : public TestCluster {
 public:
  explicit LoopbackCluster(int size) : fabric_(size) {}
  static absl::StatusOr<std::unique_ptr<TestCluster>> Open(int size, bool faulty,
                                                           MessageProtection protection) {
    auto cluster = std::make_unique<LoopbackCluster>(size);
    for (int rank = 0; rank < size; ++rank) {
      std::unique_ptr<Transport> joined = cluster->fabric_.Join(rank);
      if (faulty) joined = WithFaults(std::move(joined));
      ASSIGN_OR_RETURN(cluster->ranks_.emplace_back(), Protected::Around(std::move(joined), protection));
    }
    return cluster;
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
  static absl::StatusOr<std::unique_ptr<TestCluster>> Open(UcxTransport::Links links, int size, bool faulty,
                                                           MessageProtection protection) {
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
      std::unique_ptr<Transport> joined = std::move(rank);
      if (faulty) joined = WithFaults(std::move(joined));
      ASSIGN_OR_RETURN(cluster->ranks_.emplace_back(), Protected::Around(std::move(joined), protection));
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
  constexpr auto kChecksum = MessageProtection::kChecksum, kEncryption = MessageProtection::kEncryption;
  const auto loopback = [](bool faulty, MessageProtection protection = MessageProtection::kNone) {
    return [=](int size) { return LoopbackCluster::Open(size, faulty, protection); };
  };
  const auto ucx = [](Links links, bool faulty, MessageProtection protection = MessageProtection::kNone) {
    return [=](int size) { return UcxCluster::Open(links, size, faulty, protection); };
  };
  return {
      {"loopback", Crashes::kAreNoticed, loopback(/*faulty=*/false)},
      {"ucx tcp", Crashes::kAreNoticed, ucx(Links::kTcp, /*faulty=*/false)},
      {"ucx shared memory", Crashes::kAreNot, ucx(Links::kSharedMemory, /*faulty=*/false)},
      {"faulty loopback", Crashes::kAreNoticed, loopback(/*faulty=*/true)},
      {"faulty ucx shared memory", Crashes::kAreNot, ucx(Links::kSharedMemory, /*faulty=*/true)},
      {"checksums, faulty loopback", Crashes::kAreNoticed, loopback(/*faulty=*/true, kChecksum)},
      {"encryption, faulty loopback", Crashes::kAreNoticed, loopback(/*faulty=*/true, kEncryption)},
      {"checksums, ucx tcp", Crashes::kAreNoticed, ucx(Links::kTcp, /*faulty=*/false, kChecksum)},
      {"encryption, ucx tcp", Crashes::kAreNoticed, ucx(Links::kTcp, /*faulty=*/false, kEncryption)},
  };
}

}  // namespace medley

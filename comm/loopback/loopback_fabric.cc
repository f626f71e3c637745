#include "comm/loopback/loopback_fabric.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/loopback/mailboxes.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/peer_set.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

[[noreturn]] void Stop(const std::string& why) {
  std::fprintf(stderr, "LoopbackFabric: %s\n", why.c_str());
  std::abort();
}

// One rank's view.
class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(Mailboxes& mailboxes, int rank, std::vector<bool> is_peer)
      : mailboxes_(mailboxes), rank_(rank), is_peer_(std::move(is_peer)) {}
  ~LoopbackTransport() override { mailboxes_.Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return mailboxes_.size(); }
  bool IsPeer(int rank) const override { return IsAmong(is_peer_, rank); }

  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory) override {
    ASSIGN_OR_RETURN(const uint64_t bits, Pack(peer, rank_, tag, memory));
    auto transfer = std::make_unique<LoopbackTransfer>(
        mailboxes_, LoopbackTransfer::Key{{peer, bits}, rank_, peer, tag}, absl::Span<std::byte>());
    mailboxes_.Send(*transfer, bytes);
    return transfer;
  }

  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory) override {
    ASSIGN_OR_RETURN(const uint64_t bits, Pack(peer, peer, tag, memory));
    auto transfer = std::make_unique<LoopbackTransfer>(
        mailboxes_, LoopbackTransfer::Key{{rank_, bits}, rank_, peer, tag}, bytes);
    mailboxes_.Receive(*transfer);
    return transfer;
  }

  void Abort(const std::string& reason) override { mailboxes_.Abort(rank_, reason); }

  void MarkGone(int peer, const std::string& why) override {
    if (peer >= 0 && peer < size() && peer != rank_) mailboxes_.MarkGone(rank_, peer, why);
  }

  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory) override {
    RETURN_IF_ERROR(CheckMemory(memory));
    return std::unique_ptr<Registration>();
  }

  std::vector<PeerTraffic> Traffic() const override { return mailboxes_.Traffic(rank_); }

 private:
  static absl::Status CheckMemory(MemoryType memory) {
    if (memory == MemoryType::kHost) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("memory is of type ",
                                                   memory == MemoryType::kCuda ? "cuda" : "rocm",
                                                   ", loopback reaches host memory only"));
  }

  absl::StatusOr<uint64_t> Pack(int peer, int source, MessageTag tag, MemoryType memory) const {
    RETURN_IF_ERROR(CheckMemory(memory));
    RETURN_IF_ERROR(CheckPeer("peer", peer, rank_, size(), IsPeer(peer)));
    return PackTag({.source = source, .message = tag});
  }

  Mailboxes& mailboxes_;
  const int rank_;
  const std::vector<bool> is_peer_;
};

}  // namespace

LoopbackFabric::LoopbackFabric(int size) : mailboxes_(std::make_unique<Mailboxes>(std::max(size, 1))) {
  if (size < 1 || size > kMaximumRanks)
    Stop(absl::StrCat("size is ", size, ", not in [1, ", kMaximumRanks, "]"));
}

LoopbackFabric::~LoopbackFabric() = default;

std::unique_ptr<Transport> LoopbackFabric::Join(int rank, const std::optional<std::vector<int>>& peers) {
  const int size = mailboxes_->size();
  if (rank < 0 || rank >= size) Stop(absl::StrCat("rank is ", rank, ", not in [0, ", size, ")"));
  absl::StatusOr<std::vector<bool>> is_peer = PeerSet(peers, rank, size);
  if (!is_peer.ok()) Stop(std::string(is_peer.status().message()));
  if (!mailboxes_->Join(rank)) Stop(absl::StrCat("rank ", rank, " joined twice"));
  return std::make_unique<LoopbackTransport>(*mailboxes_, rank, *std::move(is_peer));
}

void LoopbackFabric::MarkGone(int rank, const std::string& why) {
  if (rank < 0 || rank >= mailboxes_->size()) Stop(absl::StrCat("no rank ", rank));
  for (int owner = 0; owner < mailboxes_->size(); ++owner) {
    if (owner != rank) mailboxes_->MarkGone(owner, rank, why);
  }
}

}  // namespace medley

#include "comm/ucx/ucx_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/peer_set.h"
#include "comm/ucx/host_identity.h"
#include "comm/ucx/ucx_state.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Direction = UcxOperation::Direction;

std::unique_ptr<UcxOperation> MakeOperation(Direction direction, int peer, const MessageTag& tag,
                                            MemoryType memory) {
  auto operation = std::make_unique<UcxOperation>();
  operation->direction = direction;
  operation->peer = peer;
  operation->tag = tag;
  operation->memory = memory;
  return operation;
}

}  // namespace

UcxTransport::UcxTransport(const Options& options, std::vector<bool> is_peer)
    : options_(options), is_peer_(std::move(is_peer)) {}

UcxTransport::~UcxTransport() = default;

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Create(const Options& options) {
  if (options.size < 1 || options.size > kMaximumRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("size is ", options.size, ", not in [1, ", kMaximumRanks, "]"));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank is ", options.rank, ", not in [0, ", options.size, ")"));
  }
  ASSIGN_OR_RETURN(std::vector<bool> is_peer, PeerSet(options.peers, options.rank, options.size));
  RETURN_IF_ERROR(CheckDevices(options.network_devices));
  ASSIGN_OR_RETURN(const UcxFindings found, QueryUcx());
  UcxWorker::Options wanted{TransportsFor(options.links, found), options.network_devices,
                            static_cast<int>(std::count(is_peer.begin(), is_peer.end(), true))};
  if (options.links == Links::kSharedMemory) wanted.network_devices.clear();
  ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(wanted));
  UcxAddress address;
  address.attempt = options.attempt;
  address.rank = options.rank;
  address.process = OwnProcess();
  // Both ends must judge alike whether they share memory: who will not is on no host that others are on.
  if (options.links != Links::kTcp) address.host = HostIdentity();
  ASSIGN_OR_RETURN(address.any, worker->PackAddress(UcxWorker::Reach::kAny));
  if (options.links != Links::kSharedMemory) {
    ASSIGN_OR_RETURN(address.network, worker->PackAddress(UcxWorker::Reach::kNetwork));
  }
  std::unique_ptr<UcxTransport> made(new UcxTransport(options, std::move(is_peer)));
  made->address_ = EncodeAddress(address);
  made->state_ = std::make_unique<UcxState>(options, std::move(worker));
  return made;
}

absl::Status UcxTransport::Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline) {
  if (addresses_by_rank.size() != static_cast<size_t>(size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(addresses_by_rank.size(), " addresses for ", size(), " ranks"));
  }
  std::vector<UcxAddress> addresses;  // all are read before the first is used
  for (int peer = 0; peer < size(); ++peer) {
    if (!IsPeer(peer)) continue;
    absl::StatusOr<UcxAddress> address = DecodeAddress(addresses_by_rank[peer]);
    if (!address.ok()) return Annotate(address.status(), absl::StrCat("rank ", peer));
    if (address->rank != peer || address->attempt != options_.attempt) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", peer, ": the address is of rank ", address->rank, " in attempt ",
                       address->attempt, ", not of rank ", peer, " in attempt ", options_.attempt));
    }
    addresses.push_back(*std::move(address));
  }
  const std::string own_host = HostIdentity();
  for (const UcxAddress& address : addresses) RETURN_IF_ERROR(state_->Open(address, own_host));
  return state_->AwaitConnections(deadline);
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxTransport::Start(std::unique_ptr<UcxOperation> operation,
                                                              absl::Span<std::byte> bytes) {
  const int peer = operation->peer;
  RETURN_IF_ERROR(CheckPeer("peer", peer, rank(), size(), IsPeer(peer)));
  if (operation->memory != MemoryType::kHost && !Reaches(operation->memory)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory is ", NameOf(operation->memory), ", which the UCX at hand does not reach"));
  }
  // A message carries its receiver's token.
  const bool sends = operation->sends();
  ASSIGN_OR_RETURN(operation->wire_tag, PackTag({.token = state_->token(sends ? peer : rank()),
                                                 .source = sends ? rank() : peer,
                                                 .message = operation->tag}));
  operation->data = bytes.data();
  operation->bytes = bytes.size();
  return state_->Start(std::move(operation));
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxTransport::Send(int peer, MessageTag tag,
                                                             absl::Span<const std::byte> bytes,
                                                             MemoryType memory) {
  return Start(MakeOperation(Direction::kSend, peer, tag, memory),
               {const_cast<std::byte*>(bytes.data()), bytes.size()});  // UCX only reads it
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxTransport::Receive(int peer, MessageTag tag,
                                                                absl::Span<std::byte> bytes,
                                                                MemoryType memory) {
  return Start(MakeOperation(Direction::kReceive, peer, tag, memory), bytes);
}

void UcxTransport::Abort(const std::string& reason) { state_->Abort(reason); }

void UcxTransport::MarkGone(int peer, const std::string& why) {
  if (IsPeer(peer)) state_->MarkGone(peer, why);
}

bool UcxTransport::Reaches(MemoryType memory) const { return state_->Reaches(memory); }

void UcxTransport::Expect(int peer, const std::string& why) {
  if (IsPeer(peer)) state_->Expect(peer, why);
}

bool UcxTransport::SharesMemory(int peer) const { return state_->SharesMemory(peer); }

absl::StatusOr<std::unique_ptr<Registration>> UcxTransport::Register(absl::Span<std::byte> bytes,
                                                                     MemoryType memory) {
  if (!Reaches(memory)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory is ", NameOf(memory), ", which the UCX at hand does not reach"));
  }
  return state_->Register(bytes, memory);
}

std::vector<PeerTraffic> UcxTransport::Traffic() const { return state_->Traffic(); }

uint64_t UcxTransport::DroppedMessages() const { return state_->DroppedMessages(); }

absl::Status UcxTransport::Close(absl::Time deadline) { return state_->Close(deadline); }

}  // namespace medley

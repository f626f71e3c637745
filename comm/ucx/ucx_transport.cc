#include "comm/ucx/ucx_transport.h"

#include <net/if.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/transport/message_tag.h"
#include "comm/ucx/host_identity.h"
#include "comm/ucx/ucx_state.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

const char* TransportsFor(UcxTransport::Links links) {
  switch (links) {
    case UcxTransport::Links::kAutomatic: return "tcp,sm,self";
    case UcxTransport::Links::kTcp: return "tcp,self";
    case UcxTransport::Links::kSharedMemory: return "sm,self";
  }
  return "";
}

// UCX passes over a device that it does not find.
absl::Status CheckDevices(const std::string& devices) {
  if (devices.empty()) return absl::OkStatus();
  for (const std::string& device : std::vector<std::string>(absl::StrSplit(devices, ','))) {
    if (if_nametoindex(device.c_str()) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("network_devices is \"", devices, "\", and \"", device,
                                                     "\" is no network device here"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPeer(int peer, const UcxTransport& transport, const MessageTag& tag) {
  if (peer < 0 || peer >= transport.size() || peer == transport.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("peer is ", peer, ", not in [0, ", transport.size(),
                                                   ") without this rank, ", transport.rank()));
  }
  return PackTag({.epoch = 0, .source = peer, .message = tag}).status();
}

}  // namespace

UcxTransport::UcxTransport(const Options& options) : options_(options) {}

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
  RETURN_IF_ERROR(CheckDevices(options.network_devices));
  UcxWorker::Options wanted{TransportsFor(options.links), options.network_devices, options.size};
  if (options.links == Links::kSharedMemory) wanted.network_devices.clear();
  ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(wanted));
  UcxAddress address;
  address.epoch = options.epoch;
  address.rank = options.rank;
  address.host = HostIdentity();
  ASSIGN_OR_RETURN(address.any, worker->PackAddress(UcxWorker::Reach::kAny));
  if (options.links != Links::kSharedMemory) {
    ASSIGN_OR_RETURN(address.network, worker->PackAddress(UcxWorker::Reach::kNetwork));
  }
  std::unique_ptr<UcxTransport> made(new UcxTransport(options));
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
    if (peer == rank()) continue;
    absl::StatusOr<UcxAddress> address = DecodeAddress(addresses_by_rank[peer]);
    if (!address.ok()) return Annotate(address.status(), absl::StrCat("rank ", peer));
    if (address->rank != peer || address->epoch != options_.epoch) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", peer, ": the address is of rank ",
                                                     address->rank, " in epoch ", address->epoch,
                                                     ", not of rank ", peer, " in epoch ", options_.epoch));
    }
    addresses.push_back(*std::move(address));
  }
  const std::string own_host = HostIdentity();
  for (const UcxAddress& address : addresses) RETURN_IF_ERROR(state_->Open(address, own_host));
  return state_->AwaitConnections(deadline);
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxTransport::Send(int peer, MessageTag tag,
                                                             absl::Span<const std::byte> bytes) {
  RETURN_IF_ERROR(CheckPeer(peer, *this, tag));
  auto operation = std::make_unique<UcxOperation>();
  operation->direction = UcxOperation::Direction::kSend;
  operation->peer = peer;
  operation->tag = tag;
  operation->bytes = bytes.size();
  return state_->Start(std::move(operation), const_cast<std::byte*>(bytes.data()));  // UCX only reads it
}

absl::StatusOr<std::unique_ptr<Transfer>> UcxTransport::Receive(int peer, MessageTag tag,
                                                                absl::Span<std::byte> bytes) {
  RETURN_IF_ERROR(CheckPeer(peer, *this, tag));
  auto operation = std::make_unique<UcxOperation>();
  operation->direction = UcxOperation::Direction::kReceive;
  operation->peer = peer;
  operation->tag = tag;
  operation->bytes = bytes.size();
  return state_->Start(std::move(operation), bytes.data());
}

void UcxTransport::Abort(const std::string& reason) { state_->Abort(reason); }

absl::Status UcxTransport::Close(absl::Time deadline) { return state_->Close(deadline); }

}  // namespace medley

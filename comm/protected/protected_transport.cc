#include "comm/protected/protected_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/peer_set.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Fewer could be guessed.
constexpr size_t kLeastSecretBytes = 16;

absl::Status CheckMemory(MemoryType memory) {
  if (memory == MemoryType::kHost) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("memory is of type ",
                                                 memory == MemoryType::kCuda ? "cuda" : "rocm",
                                                 ", protected messages reach host memory only"));
}

// Bytes and trailer on their way.
class ProtectedSend final : public Transfer {
 public:
  // Seals; Start follows.
  ProtectedSend(const MessageSeal& seal, MessageTag tag, uint64_t number, absl::Span<const std::byte> bytes)
      : bytes_(bytes), trailer_bytes_(seal.trailer_bytes()) {
    if (seal.Encrypts()) sealed_.reset(new std::byte[bytes.size()]);  // not cleared
    seal.Seal(tag, number, bytes, sealed_.get(), trailer_);
    if (seal.Encrypts()) bytes_ = {sealed_.get(), bytes.size()};
  }
  absl::Status Start(Transport& inner, int peer, MessageTag tag) {
    ASSIGN_OR_RETURN(first_, inner.Send(peer, tag, bytes_));
    ASSIGN_OR_RETURN(last_, inner.Send(peer, tag, absl::MakeConstSpan(trailer_).first(trailer_bytes_)));
    return absl::OkStatus();
  }
  absl::Status Wait(absl::Time deadline) override {
    RETURN_IF_ERROR(first_->Wait(deadline));
    return last_->Wait(deadline);
  }
  bool Done() override { return first_->Done() && last_->Done(); }

 private:
  std::unique_ptr<std::byte[]> sealed_;  // null: the bytes go as they lie
  absl::Span<const std::byte> bytes_;
  MessageTrailer trailer_;
  const size_t trailer_bytes_;
  std::unique_ptr<Transfer> first_, last_;  // of the inner transport; before what they read is freed
};

}  // namespace

// Bytes and trailer as they come; they are opened by who waits for them.
class ProtectedReceive final : public Transfer {
 public:
  ProtectedReceive(ProtectedTransport& transport, ProtectedTransport::Link& link, int peer, MessageTag tag,
                   absl::Span<std::byte> bytes)
      : transport_(transport),
        link_(link),
        stream_(link.StreamOf(tag)),
        peer_(peer),
        tag_(tag),
        bytes_(bytes) {}

  absl::Status Start() {
    MutexLock lock(stream_.mutex);
    Transport& inner = transport_.inner_;
    ASSIGN_OR_RETURN(first_, inner.Receive(peer_, tag_, bytes_));
    ASSIGN_OR_RETURN(
        last_, inner.Receive(peer_, tag_, absl::MakeSpan(trailer_).first(link_.receiving.trailer_bytes())));
    place_ = stream_.received.Post();
    return absl::OkStatus();
  }

  ~ProtectedReceive() override {
    if (last_ == nullptr || finished_) return;
    const bool has_come = first_->Done();
    if (has_come && !last_->Done() &&
        absl::IsDeadlineExceeded(last_->Wait(Now() + transport_.options_.cancel_grace))) {
      transport_.Abort(absl::StrCat("a receive from rank ", peer_, " (", DescribeTag(tag_),
                                    ") was given up in the middle of its message"));
    }
    MutexLock lock(stream_.mutex);
    // Nothing may take a place in the order between the end of these and its own.
    last_.reset();
    first_.reset();
    if (has_come) {
      stream_.received.Take(place_);
    } else {
      stream_.received.Cancel(place_);
    }
  }

  absl::Status Wait(absl::Time deadline) override {
    if (finished_) return status_;
    const absl::Status first = first_->Wait(deadline);
    if (absl::IsDeadlineExceeded(first)) return first;
    // After a message of another size, too, there is a trailer.
    const bool has_come = first.ok() || absl::IsInternal(first);
    const absl::Status last = has_come ? last_->Wait(deadline) : first;
    if (absl::IsDeadlineExceeded(last)) return last;
    finished_ = true;
    uint64_t due = 0;
    {
      MutexLock lock(stream_.mutex);
      due = stream_.received.Due(place_);
      stream_.received.Take(place_);
    }
    status_ = Judge(first, last, due);
    if (!status_.ok()) std::fill(bytes_.begin(), bytes_.end(), std::byte{});  // they may be anything
    return status_;
  }

  bool Done() override { return finished_ || (first_->Done() && last_->Done()); }

 private:
  absl::Status Judge(const absl::Status& first, const absl::Status& last, uint64_t due) {
    if (absl::IsInternal(last)) return Lost("has no seal where it should be");
    // The size that was sent is no other: it was cut or stretched on its way.
    if (absl::IsInternal(first) && last.ok() && MessageSeal::SizeIn(trailer_) == bytes_.size())
      return Lost("did not keep its size on its way");
    if (!first.ok()) return first;
    if (!last.ok()) return last;
    if (link_.receiving.Open(tag_, due, bytes_, trailer_)) return absl::OkStatus();
    const uint64_t number = MessageSeal::NumberIn(trailer_);
    if (number == due) return Lost("was altered on its way, or sealed with another key");
    return Lost(absl::StrCat("says that it is number ", number, " of its tag where number ", due,
                             " is due: it was altered, replayed or reordered, or one before it was dropped"));
  }
  absl::Status Lost(const std::string& why) const {
    return absl::DataLossError(absl::StrCat("message of ", bytes_.size(), " bytes from rank ", peer_, " (",
                                            DescribeTag(tag_), ") ", why, "; messages are protected by ",
                                            NameOf(transport_.options_.protection)));
  }

  ProtectedTransport& transport_;
  ProtectedTransport::Link& link_;
  ProtectedTransport::Stream& stream_;
  const int peer_;
  const MessageTag tag_;
  const absl::Span<std::byte> bytes_;
  MessageTrailer trailer_ = {};
  uint64_t place_ = 0;  // in the stream's order, once started
  std::unique_ptr<Transfer> first_, last_;
  bool finished_ = false;
  absl::Status status_;
};

ProtectedTransport::Link::Link(const Options& options, int rank, int peer)
    : sending(options.protection,
              options.protection == MessageProtection::kEncryption
                  ? DeriveMessageKey(options.secret, options.attempt, rank, peer)
                  : MessageKey(),
              rank, peer),
      receiving(options.protection,
                options.protection == MessageProtection::kEncryption
                    ? DeriveMessageKey(options.secret, options.attempt, peer, rank)
                    : MessageKey(),
                peer, rank) {}

ProtectedTransport::Stream& ProtectedTransport::Link::StreamOf(MessageTag tag) {
  const uint64_t bits = PackTag({.message = tag}).value();  // Check has looked at it
  MutexLock lock(mutex);
  std::unique_ptr<Stream>& stream = streams[bits];
  if (stream == nullptr) stream = std::make_unique<Stream>();
  return *stream;
}

absl::StatusOr<std::unique_ptr<ProtectedTransport>> ProtectedTransport::Create(Transport& inner,
                                                                               const Options& options) {
  if (options.protection == MessageProtection::kEncryption && options.secret.size() < kLeastSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat("secret: has ", options.secret.size(),
                                                   " bytes; encrypted messages need at least ",
                                                   kLeastSecretBytes));
  }
  return std::unique_ptr<ProtectedTransport>(new ProtectedTransport(inner, options));
}

ProtectedTransport::~ProtectedTransport() = default;

// What the inner transport refuses, and memory of devices.
absl::Status ProtectedTransport::Check(int peer, MessageTag tag, MemoryType memory) const {
  RETURN_IF_ERROR(CheckMemory(memory));
  RETURN_IF_ERROR(CheckPeer("peer", peer, rank(), size(), IsPeer(peer)));
  return PackTag({.source = rank(), .message = tag}).status();
}

ProtectedTransport::Link* ProtectedTransport::LinkWith(int peer) {
  MutexLock lock(mutex_);
  const auto [link, is_new] = links_.try_emplace(peer);
  if (is_new && ProtectionWith(peer) != MessageProtection::kNone)
    link->second = std::make_unique<Link>(options_, rank(), peer);
  return link->second.get();
}

absl::StatusOr<std::unique_ptr<Transfer>> ProtectedTransport::Send(int peer, MessageTag tag,
                                                                   absl::Span<const std::byte> bytes,
                                                                   MemoryType memory) {
  RETURN_IF_ERROR(Check(peer, tag, memory));
  Link* const link = LinkWith(peer);
  if (link == nullptr) return inner_.Send(peer, tag, bytes, memory);
  Stream& stream = link->StreamOf(tag);
  MutexLock lock(stream.mutex);
  auto transfer = std::make_unique<ProtectedSend>(link->sending, tag, stream.sent, bytes);
  ++stream.sent;  // whatever becomes of it: a nonce is used once
  RETURN_IF_ERROR(transfer->Start(inner_, peer, tag));
  return transfer;
}

absl::StatusOr<std::unique_ptr<Transfer>> ProtectedTransport::Receive(int peer, MessageTag tag,
                                                                      absl::Span<std::byte> bytes,
                                                                      MemoryType memory) {
  RETURN_IF_ERROR(Check(peer, tag, memory));
  Link* const link = LinkWith(peer);
  if (link == nullptr) return inner_.Receive(peer, tag, bytes, memory);
  auto transfer = std::make_unique<ProtectedReceive>(*this, *link, peer, tag, bytes);
  RETURN_IF_ERROR(transfer->Start());
  return transfer;
}

absl::StatusOr<std::unique_ptr<Registration>> ProtectedTransport::Register(absl::Span<std::byte> bytes,
                                                                           MemoryType memory) {
  RETURN_IF_ERROR(CheckMemory(memory));
  return inner_.Register(bytes, memory);
}

std::vector<PeerTraffic> ProtectedTransport::Traffic() const {
  const size_t trailer_bytes = MessageSeal::TrailerBytes(options_.protection);
  std::vector<PeerTraffic> all = inner_.Traffic();
  // Every second message is a trailer.
  const auto take_trailers = [&](uint64_t& messages, uint64_t& bytes) {
    bytes -= std::min(bytes, trailer_bytes * (messages / 2));
    messages -= messages / 2;
  };
  for (PeerTraffic& traffic : all) {
    if (ProtectionWith(traffic.peer) == MessageProtection::kNone) continue;
    take_trailers(traffic.messages_sent, traffic.bytes_sent);
    take_trailers(traffic.messages_received, traffic.bytes_received);
  }
  return all;
}

}  // namespace medley

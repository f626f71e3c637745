#include "comm/staging/staged_transfer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/skeleton/skeleton_queue.h"

namespace medley {
namespace {

using HostBytes = std::vector<std::byte>;

// What happened, in order: "copy 3" and "send 3" when submitted, "copied 3" and "sent 3" when waited for.
struct Journal {
  std::vector<std::string> events;
  void Add(const std::string& what, int64_t k) { events.push_back(absl::StrCat(what, " ", k)); }
  // Where it stands; after everything if it did not happen.
  size_t At(const std::string& what, int64_t k) const {
    return std::find(events.begin(), events.end(), absl::StrCat(what, " ", k)) - events.begin();
  }
  bool Has(const std::string& what, int64_t k) const { return At(what, k) < events.size(); }
};

// A lane of a skeleton queue, which copies no sooner than it is waited for, with a journal.
class JournalLane final : public CopyLane {
 public:
  JournalLane(Journal& journal, std::unique_ptr<CopyLane> lane) : journal_(journal), lane_(std::move(lane)) {}
  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override {
    return lane_->AllocatePinned(size);
  }
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override {
    journal_.Add("copy", copies_++);
    return lane_->Upload(from, to, offset);
  }
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override {
    journal_.Add("copy", copies_++);
    return lane_->Download(from, offset, to);
  }
  Fence Record() override {
    const Fence fence = lane_->Record();
    after_copy_[fence.value] = copies_ - 1;
    return fence;
  }
  absl::Status Wait(Fence fence) override {
    if (after_copy_.count(fence.value) > 0) journal_.Add("copied", after_copy_[fence.value]);
    return lane_->Wait(fence);
  }
  absl::Status AwaitQueue(Fence fence) override { return lane_->AwaitQueue(fence); }

 private:
  Journal& journal_;
  const std::unique_ptr<CopyLane> lane_;
  int64_t copies_ = 0;
  std::map<uint64_t, int64_t> after_copy_;
};

// A network that reads and writes no sooner than it is waited for; `wire` is what goes over it.
class LateTransport final : public Transport {
 public:
  LateTransport(Journal& journal, std::vector<HostBytes>& wire) : journal_(journal), wire_(wire) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int, MessageTag, absl::Span<const std::byte> bytes,
                                                 MemoryType) override {
    return Start("sen", {const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int, MessageTag, absl::Span<std::byte> bytes,
                                                    MemoryType) override {
    return Start("receive", bytes);
  }
  void Abort(const std::string&) override {}
  void MarkGone(int, const std::string&) override {}

  int64_t fails_at = -1;  // the transfer that fails when it is waited for
  int under_way = 0, most_under_way = 0;

 private:
  class Late final : public Transfer {
   public:
    Late(LateTransport& transport, int64_t k, absl::Span<std::byte> bytes, bool sends)
        : transport_(transport), k_(k), bytes_(bytes), before_(bytes.begin(), bytes.end()), sends_(sends) {}
    ~Late() override { --transport_.under_way; }
    absl::Status Wait(absl::Time) override {
      transport_.journal_.Add(sends_ ? "sent" : "received", k_);
      if (k_ == transport_.fails_at) return absl::UnavailableError("rank 1 is gone");
      if (sends_) {
        // Already there when it was submitted, and still there now.
        CHECK(HostBytes(bytes_.begin(), bytes_.end()) == before_);
        transport_.wire_.push_back(before_);
      } else {
        REQUIRE(transport_.wire_[k_].size() == bytes_.size());
        std::copy(transport_.wire_[k_].begin(), transport_.wire_[k_].end(), bytes_.begin());
      }
      return absl::OkStatus();
    }
    bool Done() override { return false; }

   private:
    LateTransport& transport_;
    const int64_t k_;
    const absl::Span<std::byte> bytes_;
    const HostBytes before_;
    const bool sends_;
  };
  absl::StatusOr<std::unique_ptr<Transfer>> Start(const std::string& what, absl::Span<std::byte> bytes) {
    const bool sends = what == "sen";
    journal_.Add(sends ? "send" : "receive", started_);
    most_under_way = std::max(most_under_way, ++under_way);
    return std::make_unique<Late>(*this, started_++, bytes, sends);
  }

  Journal& journal_;
  std::vector<HostBytes>& wire_;
  int64_t started_ = 0;
};

struct Setup {
  Setup(int64_t bytes, int64_t chunk, int depth, uint64_t seed)
      : pieces{bytes, chunk}, content(static_cast<size_t>(bytes)), queue(MiB(64)) {
    std::mt19937_64 random(seed);
    for (std::byte& byte : content) byte = static_cast<std::byte>(random());
    buffer = *queue.Allocate({bytes + 7});
    lane = std::make_unique<JournalLane>(journal, *queue.OpenCopyLane());
    ring.resize(static_cast<size_t>(chunk * depth));
    end = std::make_unique<StagedEnd>(StagedEnd{
        .lane = *lane, .span = {buffer.get(), 7, bytes}, .ring = absl::MakeSpan(ring), .depth = depth});
  }
  HostBytes InBuffer() {
    HostBytes bytes(content.size());
    REQUIRE(queue.Download(*buffer, {7}, absl::MakeSpan(bytes)).ok());
    REQUIRE(queue.Wait(queue.Record()).ok());
    return bytes;
  }
  const Pieces pieces;
  HostBytes content, ring;
  Journal journal;
  SkeletonQueue queue;
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<CopyLane> lane;
  std::unique_ptr<StagedEnd> end;
};

TEST_CASE(
    "chunks are copied while others are sent, each is there before it goes, and slots wait for their "
    "senders") {
  for (int depth = 1; depth <= 4; ++depth) {
    for (const int64_t bytes : {0, 1, 99, 100, 101, 250, 1000, 1099}) {
      CAPTURE(depth, bytes);
      Setup setup(bytes, bytes == 0 ? 0 : 100, depth, 1);
      std::vector<HostBytes> wire;
      LateTransport transport(setup.journal, wire);
      REQUIRE(setup.queue.Upload(setup.content, *setup.buffer, {7}).ok());
      REQUIRE(setup.lane->AwaitQueue(setup.queue.Record()).ok());
      const PieceRoute route{.transport = transport, .peer = 1, .deadline = absl::InfiniteFuture()};
      REQUIRE(SendStaged(*setup.end, route, setup.pieces).ok());
      HostBytes sent;
      for (const HostBytes& piece : wire) sent.insert(sent.end(), piece.begin(), piece.end());
      CHECK(sent == setup.content);
      const int64_t count = setup.pieces.count();
      CHECK(static_cast<int64_t>(wire.size()) == count);
      const Journal& journal = setup.journal;
      for (int64_t k = 0; k < count; ++k) {
        CAPTURE(k);
        CHECK(journal.At("copied", k) < journal.At("send", k));
        if (k + depth < count) CHECK(journal.At("sent", k) < journal.At("copy", k + depth));
        // The overlap: while k is on its way, the next is copied.
        if (depth > 1 && k + 1 < count) CHECK(journal.At("copy", k + 1) < journal.At("sent", k));
        // With slots enough the lane has the next one to do before the thread turns to sending.
        if (depth > 2 && k + 1 < count) CHECK(journal.At("copy", k + 1) < journal.At("send", k));
      }
      if (depth == 4 && count > 4) CHECK(transport.most_under_way >= 2);
      CHECK(transport.under_way == 0);
    }
  }
}

TEST_CASE("chunks are received while others are copied, and a slot is received into when its copy is done") {
  for (int depth = 1; depth <= 4; ++depth) {
    for (const int64_t bytes : {0, 1, 99, 100, 101, 250, 1000, 1099}) {
      CAPTURE(depth, bytes);
      Setup setup(bytes, bytes == 0 ? 0 : 100, depth, 2);
      std::vector<HostBytes> wire;
      for (int64_t k = 0; k < setup.pieces.count(); ++k) {
        const auto first = setup.content.begin() + setup.pieces.offset(k);
        wire.emplace_back(first, first + setup.pieces.size(k));
      }
      LateTransport transport(setup.journal, wire);
      const PieceRoute route{.transport = transport, .peer = 1, .deadline = absl::InfiniteFuture()};
      const absl::StatusOr<Fence> there = ReceiveStaged(*setup.end, route, setup.pieces);
      REQUIRE(there.ok());
      REQUIRE(setup.end->lane.Wait(*there).ok());
      CHECK(setup.InBuffer() == setup.content);
      const int64_t count = setup.pieces.count();
      const Journal& journal = setup.journal;
      for (int64_t k = 0; k < count; ++k) {
        CAPTURE(k);
        CHECK(journal.At("received", k) < journal.At("copy", k));
        if (k + depth < count) CHECK(journal.At("copied", k) < journal.At("receive", k + depth));
        // The overlap: while k is copied, the next is awaited from the network.
        if (depth > 1 && k + 1 < count) CHECK(journal.At("received", k + 1) < journal.At("copied", k));
      }
      if (depth == 4 && count > 4) CHECK(transport.most_under_way == 3);
    }
  }
}

TEST_CASE("on an error the chunk is named, and nothing uses ring or span any more") {
  for (const bool sends : {true, false}) {
    for (int64_t fails_at = 0; fails_at < 10; ++fails_at) {
      CAPTURE(sends, fails_at);
      Setup setup(1000, 100, 4, 3);
      std::vector<HostBytes> wire(sends ? 0 : 10, HostBytes(100));
      LateTransport transport(setup.journal, wire);
      transport.fails_at = fails_at;
      REQUIRE(setup.queue.Upload(setup.content, *setup.buffer, {7}).ok());
      REQUIRE(setup.lane->AwaitQueue(setup.queue.Record()).ok());
      const PieceRoute route{.transport = transport, .peer = 1, .deadline = absl::InfiniteFuture()};
      const absl::Status status = sends ? SendStaged(*setup.end, route, setup.pieces)
                                        : ReceiveStaged(*setup.end, route, setup.pieces).status();
      CHECK(absl::IsUnavailable(status));
      CHECK(status.message() == absl::StrCat("chunk ", fails_at + 1, " of 10: rank 1 is gone"));
      CHECK(transport.under_way == 0);
      int64_t copies = 0;
      while (setup.journal.Has("copy", copies)) ++copies;
      if (copies > 0) CHECK(setup.journal.Has("copied", copies - 1));
      // What had not been waited for would be done now.
      const HostBytes ring = setup.ring;
      REQUIRE(setup.lane->Wait(setup.lane->Record()).ok());
      CHECK(setup.ring == ring);
    }
  }
}

}  // namespace
}  // namespace medley

#include "comm/staging/device_stream_suite.h"

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "comm/conformance/test_cluster.h"
#include "comm/staging/device_stream.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using HostBytes = std::vector<std::byte>;

class Reaching final : public Transport {
 public:
  Reaching(Transport& transport, MemoryType type) : transport_(transport), type_(type) {}
  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, MessageTag tag, absl::Span<const std::byte> bytes,
                                                 MemoryType memory) override {
    return transport_.Send(peer, tag, bytes, memory == type_ ? MemoryType::kHost : memory);
  }
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, MessageTag tag, absl::Span<std::byte> bytes,
                                                    MemoryType memory) override {
    return transport_.Receive(peer, tag, bytes, memory == type_ ? MemoryType::kHost : memory);
  }
  void Abort(const std::string& reason) override { transport_.Abort(reason); }
  void MarkGone(int peer, const std::string& why) override { transport_.MarkGone(peer, why); }
  bool Reaches(MemoryType memory) const override { return memory == type_ || transport_.Reaches(memory); }
  absl::StatusOr<std::unique_ptr<Registration>> Register(absl::Span<std::byte> bytes,
                                                         MemoryType memory) override {
    return transport_.Register(bytes, memory == type_ ? MemoryType::kHost : memory);
  }

 private:
  Transport& transport_;
  const MemoryType type_;
};

struct Plan {
  int64_t size_bytes, send_offset, receive_offset;
  uint64_t seed;
};

std::vector<Plan> DrawPlans(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Plan> plans;
  for (const int64_t most : {1, 100, 70'000, 300'000, 2'500'000}) {
    plans.push_back({static_cast<int64_t>(random() % (most + 1)), static_cast<int64_t>(random() % 100),
                     static_cast<int64_t>(random() % 100), random()});
  }
  return plans;
}

HostBytes Content(const Plan& plan) {
  HostBytes bytes(static_cast<size_t>(plan.size_bytes));
  std::mt19937_64 random(plan.seed);
  for (size_t i = 0; i < bytes.size(); i += 1 + i / 5000) bytes[i] = static_cast<std::byte>(random());
  return bytes;
}

MessageTag Tag() { return {.kind = MessageTag::Kind::kActivation, .sequence = 5}; }
absl::Time Deadline() { return Now() + absl::Seconds(60); }

absl::Status SendAll(DeviceQueue& queue, DeviceStream& stream, const std::vector<Plan>& plans) {
  for (const Plan& plan : plans) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> buffer,
                     queue.Allocate({plan.size_bytes + plan.send_offset}));
    RETURN_IF_ERROR(queue.Upload(Content(plan), *buffer, {plan.send_offset}));
    // Nothing waits for the upload but the message.
    RETURN_IF_ERROR(stream.Send({.peer = 1,
                                 .tag = Tag(),
                                 .span = {buffer.get(), plan.send_offset, plan.size_bytes},
                                 .after = queue.Record()},
                                Deadline()));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(DeviceQueue& queue, DeviceStream& stream, const std::vector<Plan>& plans,
                        bool zeros) {
  for (const Plan& plan : plans) {
    const int64_t size = plan.size_bytes + plan.receive_offset + 3;
    HostBytes expected(static_cast<size_t>(size), std::byte{0x3c});
    ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> buffer, queue.Allocate({size}));
    RETURN_IF_ERROR(queue.Upload(expected, *buffer, {0}));
    RETURN_IF_ERROR(stream.Receive({.peer = 0,
                                    .tag = Tag(),
                                    .span = {buffer.get(), plan.receive_offset, plan.size_bytes},
                                    .after = queue.Record()},
                                   Deadline()));
    HostBytes arrived(expected.size());
    RETURN_IF_ERROR(queue.Download(*buffer, {0}, absl::MakeSpan(arrived)));
    RETURN_IF_ERROR(queue.Wait(queue.Record()));
    if (zeros) continue;
    const HostBytes content = Content(plan);
    std::copy(content.begin(), content.end(), expected.begin() + plan.receive_offset);
    if (arrived != expected)
      return absl::InternalError(absl::StrCat("a message of ", plan.size_bytes, " B came changed"));
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Transport> ReachingToo(Transport& transport, MemoryType type) {
  return std::make_unique<Reaching>(transport, type);
}

void CheckAllPairs(const std::vector<TestEnd>& ends) {
  for (const TransportUnderTest& kind : AllTransports()) {
    auto cluster = kind.open(2);
    REQUIRE(cluster.ok());
    const std::unique_ptr<Transport> transports[] = {ReachingToo((*cluster)->rank(0), MemoryType::kCuda),
                                                     ReachingToo((*cluster)->rank(1), MemoryType::kCuda)};
    uint64_t seed = 0;
    for (const TestEnd& sender : ends) {
      for (const TestEnd& receiver : ends) {
        const std::unique_ptr<DeviceQueue> queues[] = {sender.open(), receiver.open()};
        for (const Handling out : sender.handlings) {
          for (const Handling in : receiver.handlings) {
            INFO(kind.name << ": " << sender.name << " " << NameOf(out) << " to " << receiver.name << " "
                           << NameOf(in) << ", seed " << ++seed);
            const CopyCosts costs{{1e-6, 1e9}, {3e-6, 50e9}};  // small chunks here, larger ones there
            const std::vector<StagingTerms> terms = {TermsOf(out, costs), TermsOf(in, {})};
            std::vector<Plan> plans = DrawPlans(seed);
            if (!sender.keeps_bytes) plans.resize(4);
            absl::Status statuses[2];
            std::thread threads[2];
            for (int rank = 0; rank < 2; ++rank) {
              threads[rank] = std::thread([&, rank] {
                auto stream = DeviceStream::Open(*queues[rank], *transports[rank], terms);
                statuses[rank] = !stream.ok() ? stream.status()
                                 : rank == 0  ? SendAll(*queues[0], **stream, plans)
                                              : ReceiveAll(*queues[1], **stream, plans,
                                                           !sender.keeps_bytes || !receiver.keeps_bytes);
              });
            }
            for (std::thread& thread : threads) thread.join();
            CAPTURE(statuses[0], statuses[1]);
            REQUIRE((statuses[0].ok() && statuses[1].ok()));
          }
        }
      }
    }
  }
}

}  // namespace medley

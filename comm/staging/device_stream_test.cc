#include "comm/staging/device_stream.h"

#include <catch2/catch.hpp>
#include <thread>

#include "comm/conformance/test_cluster.h"
#include "comm/staging/device_stream_suite.h"
#include "comm/staging/exchange_terms.h"
#include "comm/staging/measure_copies.h"
#include "kernels/emulated/emulated_queue.h"
#include "kernels/host/host_queue.h"
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr CopyCosts kCosts{{1e-6, 1e9}, {1e-6, 1e9}};

TestEnd Host() {
  return {"host", [] { return std::make_unique<HostQueue>("host", MiB(256)); }, {Handling::kHost}};
}
TestEnd Skeleton() {
  return {"skeleton",
          [] { return std::make_unique<SkeletonQueue>(MiB(256)); },
          {Handling::kStaged, Handling::kWhole}};
}
TestEnd Emulated() {
  return {.name = "emulated",
          .open =
              [] {
                return std::make_unique<EmulatedQueue>(EmulatedQueue::Options{.name = "emulated",
                                                                              .limit = GiB(1),
                                                                              .link_bytes_per_second = 20e9,
                                                                              .copy_overhead_seconds = 5e-6});
              },
          .handlings = {Handling::kStaged, Handling::kWhole},
          .keeps_bytes = false};
}

TEST_CASE("any memory sends to any other, over any transport, bit for bit") {
  CheckAllPairs({Host(), Skeleton(), Emulated()});
}

TEST_CASE("both ways at once, by streams of their own") {
  auto cluster = AllTransports()[2].open(2);  // shared memory
  REQUIRE(cluster.ok());
  const std::vector<StagingTerms> terms(2, TermsOf(Handling::kStaged, kCosts));
  constexpr int64_t kBytes = 5'000'001;
  const std::vector<absl::Status> statuses =
      (*cluster)->OnEveryRank([&](Transport& transport) -> absl::Status {
        SkeletonQueue queue(MiB(64));
        const int peer = 1 - transport.rank();
        const std::vector<std::byte> mine(kBytes, static_cast<std::byte>(7 + transport.rank()));
        auto out = queue.Allocate({kBytes}), in = queue.Allocate({kBytes});
        auto sends = DeviceStream::Open(queue, transport, terms),
             receives = DeviceStream::Open(queue, transport, terms);
        if (absl::Status status = queue.Upload(mine, **out, {0}); !status.ok()) return status;
        const Fence ready = queue.Record();
        const absl::Time deadline = Now() + absl::Seconds(30);
        absl::Status sent;
        std::thread sender([&] {
          sent = (*sends)->Send({peer, {}, {out->get(), 0, kBytes}, ready}, deadline);
        });
        absl::Status received = (*receives)->Receive({peer, {}, {in->get(), 0, kBytes}, ready}, deadline);
        sender.join();
        std::vector<std::byte> arrived(kBytes);
        if (received.ok()) received = queue.Download(**in, {0}, absl::MakeSpan(arrived));
        if (received.ok()) received = queue.Wait(queue.Record());
        if (received.ok() && arrived != std::vector<std::byte>(kBytes, static_cast<std::byte>(7 + peer))) {
          received = absl::InternalError("changed");
        }
        return sent.ok() ? received : sent;
      });
  CAPTURE(statuses[0], statuses[1]);
  CHECK((statuses[0].ok() && statuses[1].ok()));
}

TEST_CASE(
    "a message that does not come ends at the deadline, names the peer, and the stream can be destroyed") {
  for (const TransportUnderTest& kind : AllTransports()) {
    CAPTURE(kind.name);
    auto cluster = kind.open(2);
    REQUIRE(cluster.ok());
    SkeletonQueue queue(MiB(64));
    auto buffer = queue.Allocate(MiB(4));
    auto stream = DeviceStream::Open(queue, (*cluster)->rank(0), {2, TermsOf(Handling::kStaged, kCosts)});
    REQUIRE(stream.ok());
    const absl::Status late =
        (*stream)->Receive({1, {}, {buffer->get(), 0, 4 << 20}, {}}, Now() + absl::Milliseconds(30));
    CAPTURE(late);
    CHECK(absl::IsDeadlineExceeded(late));
    CHECK_THAT(std::string(late.message()), Catch::Contains("staged receive from rank 1: chunk 1 of 8"));
  }
}

TEST_CASE("a peer that goes while it sends is named, with how far it got") {
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  SkeletonQueue queue(MiB(64));
  auto buffer = queue.Allocate(MiB(4));
  const std::vector<StagingTerms> terms = {TermsOf(Handling::kStaged, kCosts), {}};
  auto stream = DeviceStream::Open(queue, (*cluster)->rank(0), terms);
  REQUIRE(stream.ok());
  const int64_t chunk = WireChunkBytes(4 << 20, terms[0], terms[1]);
  const std::vector<std::byte> bytes(static_cast<size_t>(chunk));
  REQUIRE((*(*cluster)->rank(1).Send(0, {}, bytes))->Wait(absl::InfiniteFuture()).ok());
  (*cluster)->Crash(1);
  const absl::Status gone =
      (*stream)->Receive({1, {}, {buffer->get(), 0, 4 << 20}, {}}, Now() + absl::Seconds(30));
  CAPTURE(gone);
  CHECK(absl::IsUnavailable(gone));
  CHECK_THAT(std::string(gone.message()), Catch::Contains("rank 1") && Catch::Contains("chunk 2 of 8"));
}

TEST_CASE("what is no message is refused, and nothing is sent") {
  auto cluster = AllTransports()[0].open(2);
  REQUIRE(cluster.ok());
  SkeletonQueue queue(MiB(1));
  auto buffer = queue.Allocate({100});
  Transport& transport = (*cluster)->rank(0);
  CHECK(absl::IsInvalidArgument(DeviceStream::Open(queue, transport, {}).status()));
  const absl::Time deadline = Now() + absl::Seconds(10);
  for (const Handling own : {Handling::kHost, Handling::kDirect, Handling::kStaged, Handling::kWhole}) {
    CAPTURE(NameOf(own));
    auto stream = DeviceStream::Open(queue, transport, {TermsOf(own, kCosts), {}});
    REQUIRE(stream.ok());
    CHECK((*stream)->handling() == own);
    CHECK(absl::IsOutOfRange((*stream)->Send({1, {}, {buffer->get(), 50, 51}, {}}, deadline)));
    CHECK(absl::IsOutOfRange((*stream)->Receive({1, {}, {buffer->get(), -1, 5}, {}}, deadline)));
    CHECK(absl::IsInvalidArgument((*stream)->Send({1, {}, {buffer->get(), 0, -1}, {}}, deadline)));
    CHECK(absl::IsInvalidArgument((*stream)->Send({2, {}, {buffer->get(), 0, 5}, {}}, deadline)));
    CHECK(absl::IsInvalidArgument((*stream)->Send({1, {}, {nullptr, 0, 5}, {}}, deadline)));
  }
  // Memory that neither the host nor a network reaches cannot be handled as if they did.
  for (const Handling own : {Handling::kHost, Handling::kDirect}) {
    auto stream = DeviceStream::Open(queue, transport, {TermsOf(own, kCosts), {}});
    CHECK(absl::IsInvalidArgument((*stream)->Send({1, {}, {buffer->get(), 0, 5}, {}}, deadline)));
  }
}

TEST_CASE("every rank learns the terms of all") {
  for (const TransportUnderTest& kind : AllTransports()) {
    CAPTURE(kind.name);
    auto cluster = kind.open(3);
    REQUIRE(cluster.ok());
    const std::vector<StagingTerms> terms = {
        {}, TermsOf(Handling::kStaged, kCosts), TermsOf(Handling::kDirect, kCosts)};
    const std::vector<absl::Status> statuses = (*cluster)->OnEveryRank([&](Transport& transport) {
      const auto all = ExchangeTerms(transport, terms[transport.rank()], Now() + absl::Seconds(20));
      if (!all.ok()) return all.status();
      return *all == terms ? absl::OkStatus() : absl::InternalError("others");
    });
    for (const absl::Status& status : statuses) CHECK(status == absl::OkStatus());
  }
}

TEST_CASE("what copies take is measured as it is, and memory that the host reaches has none") {
  auto cluster = AllTransports()[0].open(1);
  REQUIRE(cluster.ok());
  HostQueue host("host", MiB(1));
  const EndMemory reached = MeasureMemory(host, (*cluster)->rank(0)).value();
  CHECK(reached.host_reaches);
  // Slow enough for what a busy machine adds to be little beside it.
  EmulatedQueue slow(
      {.name = "slow", .limit = KiB(300), .link_bytes_per_second = 2.5e6, .copy_overhead_seconds = 5e-3});
  const EndMemory copied = MeasureMemory(slow, (*cluster)->rank(0)).value();
  CHECK_FALSE(copied.host_reaches);
  CHECK_FALSE(copied.network_reaches);
  for (const CopyCost& cost : {copied.copies.to_host, copied.copies.to_device}) {
    CHECK(cost.bytes_per_second > 1.25e6);
    CHECK(cost.bytes_per_second < 5e6);
    CHECK(cost.latency_seconds > 4e-3);
    CHECK(cost.latency_seconds < 50e-3);
  }
  CHECK(slow.allocated() == Bytes{0});
  const auto parameters = slow.Allocate(KiB(250)).value();
  const EndMemory over = MeasureMemory(slow, *parameters, (*cluster)->rank(0)).value();
  CHECK(over.copies.to_device.bytes_per_second > 1.25e6);
  CHECK(over.copies.to_device.bytes_per_second < 5e6);
  CHECK(slow.peak_allocated() <= KiB(256));
  EmulatedQueue full({.name = "full", .limit = KiB(63)});
  CHECK(absl::IsResourceExhausted(MeasureMemory(full, (*cluster)->rank(0)).status()));
}

TEST_CASE(
    "copies of layers are found to be no faster than the device's link, fit what it has left, and give it "
    "back") {
  for (const Bytes limit : {GiB(1), KiB(300)}) {
    EmulatedQueue queue(
        {.name = "emulated", .limit = limit, .link_bytes_per_second = 1e9, .copy_overhead_seconds = 0});
    const auto speeds = MeasureLayerCopies(queue, MiB(8));
    REQUIRE(speeds.ok());
    for (const double speed : {speeds->fetch_bytes_per_second, speeds->store_bytes_per_second}) {
      CHECK(speed > 0);
      CHECK(speed <= 1.001e9);
    }
    CHECK_FALSE(speeds->host_reaches);
    CHECK(queue.allocated() == Bytes{0});
    CHECK(queue.peak_allocated() == (limit == GiB(1) ? MiB(8) : KiB(256)));
  }
  EmulatedQueue full({.name = "full", .limit = KiB(32)});
  CHECK(absl::IsResourceExhausted(MeasureLayerCopies(full, MiB(8)).status()));
}

TEST_CASE("copies of layers are measured where the host reaches the device's memory, too") {
  HostQueue queue("host", MiB(2));
  const auto speeds = MeasureLayerCopies(queue, MiB(1));
  REQUIRE(speeds.ok());
  for (const double speed : {speeds->fetch_bytes_per_second, speeds->store_bytes_per_second}) {
    CHECK(speed > 0);
    CHECK(speed < 1e12);
  }
  CHECK(speeds->host_reaches);
  CHECK(queue.allocated() == Bytes{0});
}

}  // namespace
}  // namespace medley

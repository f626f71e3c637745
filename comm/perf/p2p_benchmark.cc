// Prints what UcxTransport does between two processes pinned to different cores, as "key value" lines:
// latency of 8 bytes (half a round trip) and bandwidth of 4 MiB messages, over shared memory and over TCP,
// the best of a few runs each since others use the machine too; over shared memory what a round trip takes on average to an end
// whose core computes all the time; and what a connected worker costs that does nothing.
//
// It does what `ucx_perftest -t tag_lat -s 8` and `-t tag_bw -s 4194304` do, one buffer a side included, so
// that the two can be compared. That buffer is of the memory that devices of the host have, on huge pages.
// Arguments: the two cores; 0 and 1 without.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/base/clock.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/short_turns.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kRuns = 40, kRounds = 5'000, kWarmUpRounds = 500;
constexpr int kMessages = 30, kWindow = 4;
constexpr size_t kLarge = 4 << 20;
constexpr int kBusyRounds = 400;
constexpr absl::Duration kBusyPause = absl::Milliseconds(2);
constexpr absl::Duration kPatience = absl::Seconds(60), kIdle = absl::Seconds(2);
constexpr MessageTag kPing{MessageTag::Kind::kProbe, 0, 0}, kLoad{MessageTag::Kind::kProbe, 1, 0},
    kDone{MessageTag::Kind::kProbe, 2, 0};

// One of the two ends.
class End {
 public:
  static absl::StatusOr<End> Connect(UcxTransport::Links links, int rank, int descriptor) {
    End end;
    ASSIGN_OR_RETURN(
        end.transport_,
        UcxTransport::Create(
            {.attempt = 1, .rank = rank, .size = 2, .links = links, .secret = "a secret for a benchmark"}));
    const std::string& own = end.transport_->address();
    std::string other(64 << 10, '\0');
    if (send(descriptor, own.data(), own.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(own.size())) {
      return absl::UnavailableError("the other process took no address");
    }
    const ssize_t length = recv(descriptor, other.data(), other.size(), 0);
    if (length <= 0) return absl::UnavailableError("the other process gave no address");
    other.resize(static_cast<size_t>(length));
    std::vector<std::string> addresses(2);
    addresses[1 - rank] = other;
    RETURN_IF_ERROR(end.transport_->Connect(addresses, Now() + kPatience));
    return end;
  }

  bool leads() const { return transport_->rank() == 0; }
  absl::Status Close() { return transport_->Close(Now() + kPatience); }

  // Seconds of half a round trip.
  absl::StatusOr<double> Latency() {
    RETURN_IF_ERROR(PingPong(kWarmUpRounds));
    const absl::Time begin = Now();
    RETURN_IF_ERROR(PingPong(kRounds));
    return absl::ToDoubleSeconds(Now() - begin) / (2 * kRounds);
  }

  // Bytes per second from the leader to the other.
  absl::StatusOr<double> Bandwidth() {
    if (memory_ == nullptr) {
      memory_ = AllocateHostMemory(kLarge);
      if (memory_ == nullptr) return absl::ResourceExhaustedError("the host has no 4 MiB left");
      std::memset(memory_.get(), 1, kLarge);
    }
    RETURN_IF_ERROR(Stream(kWindow));
    const absl::Time begin = Now();
    RETURN_IF_ERROR(Stream(kMessages));
    return kMessages * static_cast<double>(kLarge) / absl::ToDoubleSeconds(Now() - begin);
  }

  // Seconds of a round trip, while the other end's core computes beside the thread that answers.
  absl::StatusOr<double> BusyRoundTrip(size_t size) {
    std::atomic<bool> stop = false;
    std::thread computes;
    if (!leads()) {
      computes = std::thread([&] {
        volatile double value = 1;
        while (!stop) value = value * 1.000001;
      });
    }
    std::vector<std::byte> bytes(size);
    absl::Status status;
    const absl::Time begin = Now();
    std::thread([&] {
      AskForShortTurns();
      status = PingPong(kBusyRounds, absl::MakeSpan(bytes), kBusyPause);
    }).join();
    const double seconds = absl::ToDoubleSeconds((Now() - begin) / kBusyRounds - kBusyPause);
    stop = true;
    if (computes.joinable()) computes.join();
    if (!status.ok()) return status;
    return seconds;
  }

 private:
  absl::Status Exchange(bool send, MessageTag tag, absl::Span<std::byte> bytes) {
    ASSIGN_OR_RETURN(const auto transfer,
                     send ? transport_->Send(peer(), tag, bytes) : transport_->Receive(peer(), tag, bytes));
    return transfer->Wait(deadline_);
  }

  absl::Status PingPong(int rounds) {
    std::byte small[8] = {};
    return PingPong(rounds, absl::MakeSpan(small), absl::ZeroDuration());
  }

  // The leader sleeps so long before each round.
  absl::Status PingPong(int rounds, absl::Span<std::byte> bytes, absl::Duration pause) {
    deadline_ = Now() + kPatience;
    for (int round = 0; round < rounds; ++round) {
      if (leads() && pause > absl::ZeroDuration()) absl::SleepFor(pause);
      RETURN_IF_ERROR(Exchange(leads(), kPing, bytes));
      RETURN_IF_ERROR(Exchange(!leads(), kPing, bytes));
    }
    return absl::OkStatus();
  }

  absl::Status Stream(int messages) {
    deadline_ = Now() + kPatience;
    const absl::Span<std::byte> large(memory_.get(), kLarge);
    std::deque<std::unique_ptr<Transfer>> window;
    for (int i = 0; i < messages; ++i) {
      if (window.size() == kWindow) {
        RETURN_IF_ERROR(window.front()->Wait(deadline_));
        window.pop_front();
      }
      ASSIGN_OR_RETURN(window.emplace_back(), leads() ? transport_->Send(peer(), kLoad, large)
                                                      : transport_->Receive(peer(), kLoad, large));
    }
    for (const auto& transfer : window) RETURN_IF_ERROR(transfer->Wait(deadline_));
    std::byte done[1] = {};
    return Exchange(!leads(), kDone, absl::MakeSpan(done));
  }

  int peer() const { return 1 - transport_->rank(); }

  std::unique_ptr<UcxTransport> transport_;
  HostMemory memory_;
  absl::Time deadline_;
};

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status Measure(const std::string& name, UcxTransport::Links links, int rank, int descriptor,
                     double& idle_share) {
  ASSIGN_OR_RETURN(End end, End::Connect(links, rank, descriptor));
  double latency = 1e9, bandwidth = 0;
  for (int run = 0; run < kRuns; ++run) {
    ASSIGN_OR_RETURN(const double one_latency, end.Latency());
    ASSIGN_OR_RETURN(const double one_bandwidth, end.Bandwidth());
    latency = std::min(latency, one_latency);
    bandwidth = std::max(bandwidth, one_bandwidth);
  }
  const double before = ProcessorSeconds();
  absl::SleepFor(kIdle);
  idle_share = std::max(idle_share, (ProcessorSeconds() - before) / absl::ToDoubleSeconds(kIdle));
  if (end.leads()) {
    std::printf("p2p_%s_latency_8B_microseconds %.4f\n", name.c_str(), latency * 1e6);
    std::printf("p2p_%s_bandwidth_4MiB_bytes_per_second %.4g\n", name.c_str(), bandwidth);
    std::fflush(stdout);
  }
  if (links == UcxTransport::Links::kSharedMemory) {
    for (const auto& [size_name, size] :
         {std::pair("4KiB", size_t{4} << 10), std::pair("1MiB", size_t{1} << 20)}) {
      ASSIGN_OR_RETURN(const double seconds, end.BusyRoundTrip(size));
      if (end.leads())
        std::printf("p2p_shm_busy_round_trip_%s_microseconds %.0f\n", size_name, seconds * 1e6);
    }
  }
  return end.Close();
}

absl::Status Run(int rank, int descriptor, int core) {
  if (SetAllowedCores(0, {core}) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("this process may not run on core ", core));
  }
  double idle_share = 0;
  RETURN_IF_ERROR(Measure("shm", UcxTransport::Links::kSharedMemory, rank, descriptor, idle_share));
  RETURN_IF_ERROR(Measure("tcp", UcxTransport::Links::kTcp, rank, descriptor, idle_share));
  if (rank == 0) std::printf("idle_cpu_share %.5f\n", idle_share);
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  if (count != 1 && count != 3) {
    std::fprintf(stderr, "usage: %s [CORE CORE]\n", arguments[0]);
    return 2;
  }
  int descriptors[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, descriptors) != 0) {
    std::perror("socketpair");
    return 1;
  }
  const pid_t child = fork();  // before UCX has begun
  const int rank = child == 0 ? 1 : 0;
  close(descriptors[1 - rank]);
  const int core = count == 3 ? std::atoi(arguments[1 + rank]) : rank;
  const absl::Status status = medley::Run(rank, descriptors[rank], core);
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  if (rank == 1) return status.ok() ? 0 : 1;
  close(descriptors[0]);
  int other = 0;
  waitpid(child, &other, 0);
  return status.ok() && other == 0 ? 0 : 1;
}

// Times all-reduces between processes of this machine, each pinned to a core, and prints "key value" lines:
//   all_reduce_benchmark --ranks 4 --bytes 1048576 --links shm|tcp --algorithm
//   ring|halving-doubling|tree|hierarchical
//                        --wire f32|bf16 --seconds 2
// Each rank takes the median over its iterations; the slowest rank's is printed.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/collective/run_collective.h"
#include "comm/collective/time_all_reduce.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {
namespace {

constexpr int kMostRanks = 64;
constexpr int kMostIterations = 10000;

struct Settings {
  int ranks = 2;
  int64_t bytes = 1 << 20;
  UcxTransport::Links links = UcxTransport::Links::kSharedMemory;
  CollectiveChoice choice;
  WireType wire = WireType::kF32;
  double seconds = 2;
};

// What the processes share; by rank.
struct Board {
  struct Place {
    std::atomic<size_t> address_size;
    char address[64 << 10];
    double median_seconds;
  };
  std::atomic<int> iterations;
  std::atomic<int> failed;
  Place places[kMostRanks];
};

absl::StatusOr<Settings> Parse(int count, char** arguments) {
  Settings settings;
  std::map<std::string, std::string> values;
  for (int i = 1; i + 1 < count; i += 2) values[arguments[i]] = arguments[i + 1];
  const auto unknown = [](const std::string& name, const std::string& value) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is \"", value, "\", which is none of ours"));
  };
  for (const auto& [name, value] : values) {
    if (name == "--ranks") {
      settings.ranks = std::atoi(value.c_str());
    } else if (name == "--bytes") {
      settings.bytes = std::atoll(value.c_str());
    } else if (name == "--seconds") {
      settings.seconds = std::atof(value.c_str());
    } else if (name == "--links") {
      if (value != "shm" && value != "tcp") return unknown(name, value);
      settings.links = value == "shm" ? UcxTransport::Links::kSharedMemory : UcxTransport::Links::kTcp;
    } else if (name == "--wire") {
      if (value != "f32" && value != "bf16") return unknown(name, value);
      settings.wire = value == "f32" ? WireType::kF32 : WireType::kBf16;
    } else if (name == "--algorithm") {
      int algorithm = 0;
      while (algorithm < 4 && NameOf(static_cast<CollectiveAlgorithm>(algorithm)) != value) ++algorithm;
      if (algorithm == 4) return unknown(name, value);
      settings.choice.algorithm = static_cast<CollectiveAlgorithm>(algorithm);
    } else {
      return unknown("option", name);
    }
  }
  if (settings.ranks < 1 || settings.ranks > kMostRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks is ", settings.ranks, ", not in [1, ", kMostRanks, "]"));
  }
  return settings;
}

void Pin(int rank) {
  std::vector<int> allowed;
  if (GetAllowedCores(0, allowed) == 0) SetAllowedCores(0, {allowed[rank % allowed.size()]});
}

absl::StatusOr<std::unique_ptr<UcxTransport>> Connect(const Settings& settings, int rank, Board& board) {
  UcxTransport::Options options;
  options.attempt = 1;
  options.rank = rank;
  options.size = settings.ranks;
  options.links = settings.links;
  options.secret = "known to all who run this";
  if (settings.links == UcxTransport::Links::kTcp) options.network_devices = "lo";
  ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport, UcxTransport::Create(options));
  const std::string& own = transport->address();
  std::memcpy(board.places[rank].address, own.data(), own.size());
  board.places[rank].address_size = own.size();
  std::vector<std::string> addresses;
  for (int peer = 0; peer < settings.ranks; ++peer) {
    while (board.places[peer].address_size == 0 && board.failed == 0) std::this_thread::yield();
    addresses.emplace_back(board.places[peer].address, board.places[peer].address_size);
  }
  RETURN_IF_ERROR(transport->Connect(addresses, Now() + absl::Seconds(20)));
  return transport;
}

absl::Status Measure(const Settings& settings, int rank, Board& board) {
  Pin(rank);
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> transport, Connect(settings, rank, board));
  const int64_t elements = settings.bytes / static_cast<int64_t>(sizeof(float));
  ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                   AllReduceSchedule(settings.ranks, elements, settings.choice, rank));
  std::vector<int> members;
  for (int i = 0; i < settings.ranks; ++i) members.push_back(i);
  const auto median = [&](int iterations) {
    return MedianSeconds(settings.bytes, iterations, settings.ranks, [&](std::vector<float>& values) {
      const absl::Status done = RunCollective(*transport, schedule, members, 0, absl::MakeSpan(values),
                                              settings.wire, Now() + absl::Seconds(60));
      if (done.ok()) return;
      std::fprintf(stderr, "rank %d: %s\n", rank, done.ToString().c_str());
      board.failed = 1;
      std::exit(1);
    });
  };
  const double warm = median(/*iterations=*/5);
  if (rank == 0) board.iterations = std::clamp(static_cast<int>(settings.seconds / warm), 5, kMostIterations);
  while (board.iterations == 0 && board.failed == 0) std::this_thread::yield();
  board.places[rank].median_seconds = median(board.iterations);
  return transport->Close(Now() + absl::Seconds(20));
}

int Main(int count, char** arguments) {
  const absl::StatusOr<Settings> settings = Parse(count, arguments);
  if (!settings.ok()) {
    std::fprintf(stderr, "%s\n", settings.status().ToString().c_str());
    return 2;
  }
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Board& board = *new (memory) Board();
  for (int rank = 0; rank < settings->ranks; ++rank) {
    if (fork() != 0) continue;
    const absl::Status status = Measure(*settings, rank, board);
    if (!status.ok()) {
      board.failed = 1;
      std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    }
    _exit(status.ok() ? 0 : 1);
  }
  int code = 0;
  for (int status = 0; wait(&status) > 0;) code |= status;
  if (code != 0) return 1;
  double slowest = 0;
  for (int rank = 0; rank < settings->ranks; ++rank)
    slowest = std::max(slowest, board.places[rank].median_seconds);
  std::printf("iterations %d\n", board.iterations.load());
  std::printf("allreduce_microseconds %.2f\n", slowest * 1e6);
  std::printf("allreduce_bytes_per_second %.4g\n", static_cast<double>(settings->bytes) / slowest);
  return 0;
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) { return medley::Main(count, arguments); }

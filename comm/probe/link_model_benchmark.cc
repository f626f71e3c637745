// How well the fitted model of a link predicts: probes it, then measures transfers and all-reduces of random
// sizes, in five rounds since a shared machine changes its speed, and prints the median relative error as a
// "key value" line, and that of the worst round; each size on the error stream.
//
//   link_model_benchmark                        between two processes of its own, over tcp and shared memory
//   link_model_benchmark --rank 0 --directory D --name slow --links tcp
//   link_model_benchmark --rank 1 --directory D --name slow --links tcp
//                                               the two ends in two processes, wherever they are: in two network namespaces,
//                                               say; D is an empty folder that both see, through which they find each other
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/probe/measure_by_size.h"
#include "comm/probe/measure_link.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kRounds = 5, kTransfers = 20, kAllReduces = 10;
constexpr double kLargestTransfer = 32 << 20, kLargestAllReduce = 64 << 20;
constexpr double kLongestSeconds = 0.3;  // that a measured size is predicted to take

struct End {
  int rank = 0;
  std::string directory;
  std::string name;  // "tcp": ends the key
  UcxTransport::Links links = UcxTransport::Links::kAutomatic;
  std::string network_devices;
  uint64_t seed = 1;
  int core = -1;  // to run on; -1: any
};

absl::Time Deadline() { return Now() + absl::Seconds(120); }

// Both ends' addresses, through files that appear whole.
absl::StatusOr<std::vector<std::string>> ExchangeAddresses(const End& end, const std::string& own) {
  const auto path = [&](int rank) { return absl::StrCat(end.directory, "/", end.name, ".", rank); };
  if (std::filesystem::exists(path(end.rank))) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(end.rank), " is there already; --directory must be empty"));
  }
  const std::string unfinished = path(end.rank) + ".unfinished";
  std::ofstream(unfinished, std::ios::binary) << own;
  std::filesystem::rename(unfinished, path(end.rank));
  for (const absl::Time deadline = Deadline(); !std::filesystem::exists(path(1 - end.rank));) {
    if (Now() > deadline) return absl::DeadlineExceededError("the other end has not come");
    absl::SleepFor(absl::Milliseconds(10));
  }
  std::stringstream other;
  other << std::ifstream(path(1 - end.rank), std::ios::binary).rdbuf();
  std::vector<std::string> addresses(2, own);
  addresses[1 - end.rank] = other.str();
  return addresses;
}

// Evenly spread by their logarithm; multiples of 8, at most what is predicted to take kLongestSeconds.
size_t RandomSize(double largest, const LinkModel& model, std::mt19937_64& random) {
  while (largest > 4096 && model.Seconds(largest) > kLongestSeconds) largest /= 1.5;
  const double exponent = std::uniform_real_distribution<double>(std::log(8), std::log(largest))(random);
  return std::max<size_t>(8, static_cast<size_t>(std::exp(exponent)) / 8 * 8);
}

// One size, predicted and measured; of an all-reduce, half of it.
struct Case {
  bool is_all_reduce = false;
  size_t bytes = 0;
  double predicted_seconds = 0;
  std::vector<double> seconds;
};

absl::Status MeasureCase(LinkProber& prober, Case& one) {
  const auto measure = one.is_all_reduce ? &LinkProber::ExchangeSeconds : &LinkProber::TransferSeconds;
  if (!one.seconds.empty() && VisitOnce(2 * ProbeMedian(one.seconds))) return absl::OkStatus();
  return VisitSize([&](size_t bytes, int times) { return (prober.*measure)(bytes, times); }, one.bytes,
                   one.seconds);
}

// Relative errors of one round, which probes anew.
struct Round {
  double probe_seconds = 0;
  std::vector<double> transfer_errors, all_reduce_errors;
};

absl::StatusOr<Round> LeadRound(UcxTransport& transport, const End& end, std::mt19937_64& random) {
  Round round;
  const absl::Time begin = Now();
  ASSIGN_OR_RETURN(const LinkMeasurement link, MeasureLink(transport, 1, ProbeRole::kLeader, Deadline()));
  round.probe_seconds = absl::ToDoubleSeconds(Now() - begin);
  for (const auto& [name, model] :
       {std::pair("transfer", link.cost.transfer), std::pair("exchange", link.cost.exchange)}) {
    for (const LinkPoint& point : model.points) {
      std::fprintf(stderr, "%s %s model: %.0f bytes %.3g s\n", end.name.c_str(), name, point.bytes,
                   point.seconds);
    }
  }
  LinkProber prober(transport, 1, Deadline());
  RETURN_IF_ERROR(prober.Greet(ProbeRole::kLeader));
  std::vector<Case> cases;
  for (int i = 0; i < kTransfers; ++i) {
    const size_t bytes = RandomSize(kLargestTransfer, link.cost.transfer, random);
    cases.push_back({false, bytes, link.cost.transfer.Seconds(static_cast<double>(bytes)), {}});
  }
  for (int i = 0; i < kAllReduces; ++i) {
    // Two rounds of half the vector.
    const size_t half = RandomSize(kLargestAllReduce / 2, link.cost.exchange, random);
    cases.push_back({true, half, link.cost.exchange.Seconds(static_cast<double>(half)), {}});
  }
  for (int visit = 0; visit < kProbeVisits; ++visit) {
    for (Case& one : cases) RETURN_IF_ERROR(MeasureCase(prober, one));
  }
  RETURN_IF_ERROR(prober.Stop());
  for (const Case& one : cases) {
    const double measured = ProbeMedian(one.seconds);
    (one.is_all_reduce ? round.all_reduce_errors : round.transfer_errors)
        .push_back(std::abs(one.predicted_seconds - measured) / measured);
    std::fprintf(stderr, "%s %s: %zu bytes a message, predicted %.3g s, measured %.3g s, ratio %.3f\n",
                 end.name.c_str(), one.is_all_reduce ? "all-reduce" : "transfer", one.bytes,
                 one.predicted_seconds, measured, one.predicted_seconds / measured);
  }
  return round;
}

absl::Status Lead(UcxTransport& transport, const End& end) {
  std::mt19937_64 random(end.seed);
  std::vector<double> seconds, transfers, all_reduces, all, medians;
  for (int i = 0; i < kRounds; ++i) {
    ASSIGN_OR_RETURN(const Round round, LeadRound(transport, end, random));
    seconds.push_back(round.probe_seconds);
    transfers.insert(transfers.end(), round.transfer_errors.begin(), round.transfer_errors.end());
    all_reduces.insert(all_reduces.end(), round.all_reduce_errors.begin(), round.all_reduce_errors.end());
    std::vector<double> errors = round.transfer_errors;
    errors.insert(errors.end(), round.all_reduce_errors.begin(), round.all_reduce_errors.end());
    all.insert(all.end(), errors.begin(), errors.end());
    medians.push_back(ProbeMedian(errors));
  }
  std::printf("link_probe_seconds_%s %.3f\n", end.name.c_str(), ProbeMedian(seconds));
  std::printf("link_model_transfer_error_%s %.4f\n", end.name.c_str(), ProbeMedian(transfers));
  std::printf("link_model_all_reduce_error_%s %.4f\n", end.name.c_str(), ProbeMedian(all_reduces));
  std::printf("link_model_error_%s %.4f\n", end.name.c_str(), ProbeMedian(all));
  std::printf("link_model_error_worst_round_%s %.4f\n", end.name.c_str(),
              *std::max_element(medians.begin(), medians.end()));
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status Follow(UcxTransport& transport) {
  for (int i = 0; i < kRounds; ++i) {
    RETURN_IF_ERROR(MeasureLink(transport, 0, ProbeRole::kFollower, Deadline()).status());
    LinkProber prober(transport, 0, Deadline());
    RETURN_IF_ERROR(prober.Greet(ProbeRole::kFollower));
    RETURN_IF_ERROR(prober.Follow());
  }
  return absl::OkStatus();
}

absl::Status RunEnd(const End& end) {
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> transport,
                   UcxTransport::Create({.attempt = 1,
                                         .rank = end.rank,
                                         .size = 2,
                                         .links = end.links,
                                         .network_devices = end.network_devices}));
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ExchangeAddresses(end, transport->address()));
  RETURN_IF_ERROR(transport->Connect(addresses, Deadline()));
  RETURN_IF_ERROR(end.rank == 0 ? Lead(*transport, end) : Follow(*transport));
  return transport->Close(Now() + absl::Seconds(10));
}

int Run(const End& end) {
  if (end.core >= 0) {
    if (SetAllowedCores(0, {end.core}) != 0) {
      std::fprintf(stderr, "link_model_benchmark: --core %d: cannot run there\n", end.core);
      return 2;
    }
  }
  const absl::Status status = RunEnd(end);
  if (status.ok()) return 0;
  std::fprintf(stderr, "link_model_benchmark: rank %d: %s\n", end.rank, status.ToString().c_str());
  return 1;
}

// Both ends as processes of their own, on cores of their own where there are two, as workers are; this one
// stays free of UCX, so that it may fork again.
int RunBoth(End end) {
  std::vector<int> cores;
  (void)GetAllowedCores(0, cores);  // without them, both ends run anywhere
  std::string directory = std::filesystem::temp_directory_path() / "medley-link-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  end.directory = directory;
  pid_t processes[2];
  for (end.rank = 0; end.rank < 2; ++end.rank) {
    if (cores.size() > 1) end.core = cores[end.rank];
    processes[end.rank] = fork();
    if (processes[end.rank] == 0) _exit(Run(end));
  }
  int failures = 0;
  for (const pid_t process : processes) {
    int status = 1;
    if (process > 0) waitpid(process, &status, 0);
    if (status != 0) ++failures;
  }
  std::filesystem::remove_all(directory);
  return failures;
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  using medley::UcxTransport;
  CLI::App app("How well a fitted link model predicts");
  medley::End end{.rank = -1};
  app.add_option("--rank", end.rank, "0 or 1: this end alone")->check(CLI::Range(0, 1));
  app.add_option("--directory", end.directory, "an empty folder that both ends see");
  app.add_option("--name", end.name, "of the link, in the keys");
  app.add_option("--seed", end.seed, "of the sizes");
  app.add_option("--core", end.core, "to run on; otherwise any");
  app.add_option("--network_devices", end.network_devices, "as in eth0,ib0; empty: all");
  std::map<std::string, UcxTransport::Links> links = {{"auto", UcxTransport::Links::kAutomatic},
                                                      {"tcp", UcxTransport::Links::kTcp},
                                                      {"shm", UcxTransport::Links::kSharedMemory}};
  app.add_option("--links", end.links, "auto, tcp or shm")->transform(CLI::CheckedTransformer(links));
  CLI11_PARSE(app, count, arguments);
  if (end.rank >= 0) {
    if (end.directory.empty() || end.name.empty()) {
      std::fprintf(stderr, "link_model_benchmark: --rank needs --directory and --name\n");
      return 2;
    }
    return medley::Run(end);
  }
  int failures = 0;
  for (const char* name : {"tcp", "shm"}) {
    end.name = name;
    end.links = links[name];
    failures += medley::RunBoth(end);
  }
  return failures == 0 ? 0 : 1;
}

// One member of a group that sums vectors, as a process, for tests and measurements over several hosts:
//
//   collective_peer --rank 2 --size 4 --directory D --algorithm hierarchical --groups 2,2 --bytes 4194304
//   --seconds 1
//
// Members find each other through D, a folder that all see and that is empty at first. Each vector length is
// summed for so many seconds; then every member prints
//   all_reduce_seconds BYTES BEST MEDIAN     of the times that the slowest member took
//   checksum BYTES HEX                       of the sum of the first round, whose values are the same in
//   every run
// and at the end `refused_connections N`. If anything fails, the last line is `failed SECONDS STATUS`,
// SECONDS being those since the operation began, and the exit status 1. With --forever it goes on until then,
// or until D/stop is there.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/collective/all_reduce_scalars.h"
#include "comm/collective/run_collective.h"
#include "comm/communicator/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

struct Settings {
  int rank = 0, size = 1;
  uint64_t attempt = 1;
  std::string secret = "the secret of a test's attempt";
  std::string directory;
  std::string network_devices;
  UcxTransport::Links links = UcxTransport::Links::kAutomatic;
  CollectiveChoice choice;
  std::vector<int> groups;
  std::vector<int64_t> bytes;
  double seconds = 1;
  bool is_forever = false;
  double patience_seconds = 20;  // for each operation
};

// The members' addresses, in files that appear whole.
absl::StatusOr<std::vector<std::string>> ExchangeAddresses(const Settings& settings, const std::string& own,
                                                           absl::Time deadline) {
  const auto path = [&](int rank) { return fs::path(settings.directory) / absl::StrCat("rank.", rank); };
  const fs::path unfinished = absl::StrCat(path(settings.rank).string(), ".unfinished.", getpid());
  std::ofstream(unfinished, std::ios::binary) << own;
  fs::rename(unfinished, path(settings.rank));
  std::vector<std::string> addresses;
  for (int rank = 0; rank < settings.size; ++rank) {
    while (!fs::exists(path(rank))) {
      if (Now() > deadline) return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " has not come"));
      absl::SleepFor(absl::Milliseconds(5));
    }
    std::stringstream content;
    content << std::ifstream(path(rank), std::ios::binary).rdbuf();
    addresses.push_back(content.str());
  }
  return addresses;
}

class Member {
 public:
  absl::Status Join(const Settings& settings) {
    settings_ = settings;
    for (int rank = 0; rank < settings.size; ++rank) members_.push_back(rank);
    ASSIGN_OR_RETURN(communicator_, Communicator::Create({.attempt = settings.attempt,
                                                          .rank = settings.rank,
                                                          .size = settings.size,
                                                          .secret = settings.secret,
                                                          .links = settings.links,
                                                          .network_devices = settings.network_devices}));
    ASSIGN_OR_RETURN(const auto addresses, ExchangeAddresses(settings, communicator_->address(), Deadline()));
    return communicator_->Connect(addresses, Deadline());
  }

  // Whether all went well.
  bool Run() {
    absl::Status status;
    for (const int64_t bytes : settings_.bytes) {
      if (status.ok()) status = Measure(bytes);
    }
    if (!status.ok()) {
      Report(status);
      communicator_->GiveUp(std::string(status.message()), Now() + absl::Seconds(2));
    }
    std::printf("refused_connections %llu\n", static_cast<unsigned long long>(communicator_->refused()));
    std::fflush(stdout);
    if (!status.ok()) return false;
    const absl::Status closed = communicator_->Close(Now() + absl::Seconds(5));
    if (!closed.ok()) Report(closed);
    return closed.ok();
  }

  // Prints the failure of an operation.
  void Report(const absl::Status& failure) {
    const double seconds = absl::ToDoubleSeconds(Now() - begun_);
    std::printf("failed %.3f %s\n", seconds, failure.ToString().c_str());
    std::fflush(stdout);
  }

 private:
  absl::Time Deadline() {
    begun_ = Now();
    return begun_ + absl::Seconds(settings_.patience_seconds);
  }

  absl::Status Measure(int64_t bytes) {
    const int64_t elements = bytes / static_cast<int64_t>(sizeof(float));
    ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                     AllReduceSchedule(settings_.size, elements, settings_.choice, settings_.rank));
    std::vector<float> values(elements);
    std::mt19937 random(settings_.rank);
    for (float& value : values) value = static_cast<float>(random()) * 0x1p-32f;
    std::vector<double> times;
    double spent = 0;
    for (int round = 0; !IsOver(round, spent); ++round) {
      ASSIGN_OR_RETURN(const double seconds, Time(schedule, values));
      spent += seconds;
      if (round == 0) {
        std::printf("checksum %lld %s\n", static_cast<long long>(bytes), Checksum(values).c_str());
        std::fill(values.begin(), values.end(), 0.0f);  // further sums neither grow nor vanish
      } else {
        times.push_back(seconds);
      }
    }
    std::sort(times.begin(), times.end());
    std::printf("all_reduce_seconds %lld %.6g %.6g\n", static_cast<long long>(bytes), times.front(),
                times[times.size() / 2]);
    return absl::OkStatus();
  }

  // The same at every member, since what it depends on was summed over them.
  bool IsOver(int round, double spent) {
    if (round < 3) return false;
    return settings_.is_forever ? is_stopped_ : spent >= settings_.seconds;
  }

  // The seconds of the slowest member.
  absl::StatusOr<double> Time(const CollectiveSchedule& schedule, std::vector<float>& values) {
    std::vector<double> shared = {fs::exists(fs::path(settings_.directory) / "stop") ? 1.0 : 0.0};
    RETURN_IF_ERROR(
        AllReduceScalars(communicator_->transport(), members_, absl::MakeSpan(shared), Deadline()));
    is_stopped_ = shared[0] > 0;
    std::printf("summing\n");
    std::fflush(stdout);
    const absl::Time deadline = Deadline();
    RETURN_IF_ERROR(RunCollective(communicator_->transport(), schedule, members_, /*channel=*/0,
                                  absl::MakeSpan(values), WireType::kF32, deadline));
    std::vector<double> seconds(settings_.size, 0.0);
    seconds[settings_.rank] = absl::ToDoubleSeconds(Now() - begun_);
    RETURN_IF_ERROR(
        AllReduceScalars(communicator_->transport(), members_, absl::MakeSpan(seconds), Deadline()));
    return *std::max_element(seconds.begin(), seconds.end());
  }

  // FNV-1a.
  static std::string Checksum(const std::vector<float>& values) {
    uint64_t sum = 0xcbf29ce484222325;
    for (const float value : values) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      sum = (sum ^ bits) * 0x100000001b3;
    }
    return absl::StrCat(absl::Hex(sum, absl::kZeroPad16));
  }

  Settings settings_;
  std::vector<int> members_;
  std::unique_ptr<Communicator> communicator_;
  absl::Time begun_ = Now();
  bool is_stopped_ = false;
};

int Run(const Settings& settings) {
  Member member;
  const absl::Status joined = member.Join(settings);
  if (!joined.ok()) {
    member.Report(joined);
    return 1;
  }
  std::printf("joined\n");
  std::fflush(stdout);
  return member.Run() ? 0 : 1;
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  using medley::CollectiveAlgorithm;
  using Links = medley::UcxTransport::Links;
  const std::map<std::string, CollectiveAlgorithm> algorithms = {
      {"ring", CollectiveAlgorithm::kRing},
      {"halving-doubling", CollectiveAlgorithm::kHalvingDoubling},
      {"tree", CollectiveAlgorithm::kTree},
      {"hierarchical", CollectiveAlgorithm::kHierarchical}};
  const std::map<std::string, Links> links = {
      {"automatic", Links::kAutomatic}, {"tcp", Links::kTcp}, {"shared-memory", Links::kSharedMemory}};
  medley::Settings settings;
  CLI::App app("One member of a group that sums vectors");
  app.add_option("--rank", settings.rank)->required();
  app.add_option("--size", settings.size)->required()->check(CLI::Range(1, 4096));
  app.add_option("--directory", settings.directory)->required()->check(CLI::ExistingDirectory);
  app.add_option("--attempt", settings.attempt);
  app.add_option("--secret", settings.secret);
  app.add_option("--network-devices", settings.network_devices, "as in eth0,ib0; empty: all");
  app.add_option("--links", settings.links)->transform(CLI::CheckedTransformer(links));
  app.add_option("--algorithm", settings.choice.algorithm)->transform(CLI::CheckedTransformer(algorithms));
  app.add_option("--groups", settings.groups, "hierarchical: members of each group, in order of rank")
      ->delimiter(',');
  app.add_option("--bytes", settings.bytes, "of the vectors, multiples of 4")->delimiter(',')->required();
  app.add_option("--seconds", settings.seconds, "to spend on each");
  app.add_flag("--forever", settings.is_forever);
  app.add_option("--patience", settings.patience_seconds, "seconds for each operation");
  CLI11_PARSE(app, count, arguments);
  if (!settings.groups.empty()) settings.choice.shape.levels = {settings.groups};
  return medley::Run(settings);
}

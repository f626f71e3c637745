#include "agent/check/node_check.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "agent/check/writing_speed.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/bytes.h"
#include "runtime/base/first_line.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/version.h"
#include "runtime/wire/job_paths.h"

namespace medley {
namespace {

constexpr uint64_t kEnoughOpenFiles = 65536;
constexpr uint64_t kEnoughLockedBytes = uint64_t{1} << 30;
constexpr double kSlowBytesPerSecond = 50e6;
constexpr double kLittleSpace = 0.05;

class Findings {
 public:
  explicit Findings(v1::NodeCheck& check) : check_(check) {}
  void Add(v1::FindingLevel level, const std::string& subject, const std::string& text) {
    v1::Finding& finding = *check_.add_findings();
    finding.set_level(level);
    finding.set_subject(subject);
    finding.set_text(text);
  }
  void Good(const std::string& subject, const std::string& text) {
    Add(v1::FINDING_LEVEL_GOOD, subject, text);
  }
  void Warn(const std::string& subject, const std::string& text) {
    Add(v1::FINDING_LEVEL_WARNING, subject, text);
  }
  void Fail(const std::string& subject, const std::string& text) {
    Add(v1::FINDING_LEVEL_ERROR, subject, text);
  }

 private:
  v1::NodeCheck& check_;
};

std::string Limit(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : absl::StrCat(value); }

std::string LimitOfBytes(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited"
                                : absl::StrCat("at most ", FormatBytes({static_cast<int64_t>(value)}));
}

void CheckLimits(Findings& findings) {
  rlimit files = {}, locked = {};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::string said = Limit(files.rlim_max);
  if (files.rlim_max < kEnoughOpenFiles) {
    findings.Warn("open files", absl::StrCat("at most ", said,
                                             "; jobs of hundreds of ranks need more: LimitNOFILE=", 1 << 20,
                                             " in the unit, or ulimit -n"));
  } else {
    findings.Good("open files", absl::StrCat("at most ", said));
  }
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (!std::filesystem::exists("/sys/class/infiniband")) {
    findings.Good("locked memory", absl::StrCat(LimitOfBytes(locked.rlim_cur), "; no RDMA here needs it"));
  } else if (locked.rlim_cur < kEnoughLockedBytes) {
    findings.Warn(
        "locked memory",
        absl::StrCat(LimitOfBytes(locked.rlim_cur),
                     ", too little for RDMA: LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited"));
  } else {
    findings.Good("locked memory", LimitOfBytes(locked.rlim_cur));
  }
}

void CheckHugePages(Findings& findings) {
  const std::string mode = FirstLine("/sys/kernel/mm/transparent_hugepage/enabled");
  if (mode.empty() || mode.find("[never]") != std::string::npos) {
    findings.Warn("huge pages",
                  "transparent huge pages are off, which costs CPU devices some speed: echo madvise > "
                  "/sys/kernel/mm/transparent_hugepage/enabled");
  } else {
    findings.Good("huge pages", absl::StrCat("transparent: ", mode));
  }
}

// The memory node of a core, or "".
std::string MemoryNodeOf(uint32_t core) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/sys/devices/system/cpu/cpu", core), error)) {
    const std::string name = entry.path().filename();
    if (name.rfind("node", 0) == 0) return name;
  }
  return "";
}

void CheckDevices(const std::vector<v1::Device>& devices, Findings& findings) {
  std::map<uint32_t, std::string> owner;
  uint64_t host_bytes = 0;
  if (devices.empty()) findings.Fail("devices", "there are none; no job will run here");
  for (const v1::Device& device : devices) {
    const std::string subject = absl::StrCat("device ", device.name());
    std::set<std::string> memory_nodes;
    bool good = true;
    for (const uint32_t core : device.cores()) {
      const auto [held, is_new] = owner.emplace(core, device.name());
      if (!is_new) {
        good = false;
        findings.Warn(subject, absl::StrCat("computes on core ", core, ", as ", held->second,
                                            " does: they slow each other down"));
      }
      if (!std::filesystem::exists(absl::StrCat("/sys/devices/system/cpu/cpu", core))) {
        good = false;
        findings.Fail(subject, absl::StrCat("core ", core, " is not there"));
      }
      if (const std::string node = MemoryNodeOf(core); !node.empty()) memory_nodes.insert(node);
    }
    if (memory_nodes.size() > 1) {
      good = false;
      findings.Warn(subject, absl::StrCat("has cores of ", absl::StrJoin(memory_nodes, " and "),
                                          "; one device for each is faster"));
    }
    if (device.backend() == "cpu") host_bytes += device.memory_bytes();
    if (good)
      findings.Good(subject, absl::StrCat(device.kind(), ", ",
                                          FormatBytes(Bytes{static_cast<int64_t>(device.memory_bytes())})));
  }
  const Bytes available = AvailableHostMemory();
  if (host_bytes > static_cast<uint64_t>(available.value)) {
    findings.Warn(
        "memory",
        absl::StrCat("CPU devices may take ", FormatBytes(Bytes{static_cast<int64_t>(host_bytes)}),
                     " together, and ", FormatBytes(available),
                     " are available: jobs may be killed for memory; give devices less memory_bytes"));
  } else {
    findings.Good("memory", absl::StrCat(FormatBytes(available), " available"));
  }
}

void CheckDirectory(const NodeCheckOptions& options, const std::string& directory, Findings& findings) {
  const std::string subject = absl::StrCat("directory ", directory);
  if (!CheckJobPaths({}, options.allowed_directories, {{"directory", directory}}).ok())
    return findings.Fail(subject, absl::StrCat("lies in none of the directories that are allowed here "
                                               "(allowed_directories): ",
                                               absl::StrJoin(options.allowed_directories, ", ")));
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(directory, error);
  if (status.type() == std::filesystem::file_type::none) return findings.Fail(subject, error.message());
  if (!std::filesystem::is_directory(status))
    return findings.Fail(subject, "is not there; is it on a file system that every node sees?");
  struct statvfs space = {};
  if (statvfs(directory.c_str(), &space) == 0 && space.f_blocks > 0) {
    const double free = static_cast<double>(space.f_bavail) / static_cast<double>(space.f_blocks);
    if (free < kLittleSpace) findings.Warn(subject, absl::StrFormat("%.0f %% is free", 100 * free));
  }
  const absl::StatusOr<double> speed = WritingSpeed(directory);
  if (!speed.ok()) return findings.Fail(subject, std::string(speed.status().message()));
  const std::string text = absl::StrFormat("writes %.0f MB/s to the disk", *speed / 1e6);
  if (*speed < kSlowBytesPerSecond)
    return findings.Warn(subject, absl::StrCat(text, ": checkpoints will hold training up"));
  findings.Good(subject, text);
}

}  // namespace

v1::NodeCheck CheckNode(const NodeCheckOptions& options) {
  v1::NodeCheck check;
  check.set_medley_version(kMedleyVersion);
  Findings findings(check);
  CheckDevices(options.devices, findings);
  CheckLimits(findings);
  CheckHugePages(findings);
  for (const std::string& directory : options.directories) CheckDirectory(options, directory, findings);
  check.set_clock_seconds(UnixSecondsNow());
  return check;
}

}  // namespace medley

#include "runtime/device/device_name.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

constexpr int kMostCores = 4096;

absl::Status Wrong(const std::string& text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", text, "\": ", what, "; write BACKEND[:VARIANT][/CORES], as in cpu:avx2/2"));
}

}  // namespace

absl::StatusOr<DeviceDescription> ParseDeviceName(const std::string& text) {
  DeviceDescription description{.name = text};
  std::string kind = text;
  if (const size_t slash = text.rfind('/'); slash != std::string::npos) {
    kind = text.substr(0, slash);
    int cores = 0;
    if (!absl::SimpleAtoi(text.substr(slash + 1), &cores) || cores < 1 || cores > kMostCores) {
      return Wrong(text, absl::StrCat("\"", text.substr(slash + 1), "\" cores, must be 1 to ", kMostCores));
    }
    for (int core = 0; core < cores; ++core) description.cores.push_back(core);
  }
  const size_t colon = kind.find(':');
  description.backend = kind.substr(0, colon);
  if (description.backend.empty()) return Wrong(text, "no backend");
  if (colon != std::string::npos) {
    description.variant = kind.substr(colon + 1);
    if (description.variant.empty()) return Wrong(text, "no variant after \":\"");
  }
  return description;
}

}  // namespace medley

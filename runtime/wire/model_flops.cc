#include "runtime/wire/model_flops.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/wire/enum_names.h"

namespace medley {
namespace {

constexpr double kFlopsPerParameterAndToken = 6;

// As the shapes of profiles say it.
std::string PrecisionOf(const v1::JobSpec& spec) {
  const v1::Precision precision =
      spec.precision() == v1::PRECISION_UNSPECIFIED ? v1::PRECISION_F32 : spec.precision();
  return NameOf(*v1::Precision_descriptor()->FindValueByNumber(precision));
}

}  // namespace

double ModelFlopsPerSecond(const v1::Job& job) {
  if (!(job.measured_step_seconds() > 0) || job.plan().emulated()) return 0;
  return kFlopsPerParameterAndToken * static_cast<double>(job.parameters()) *
         static_cast<double>(job.last_step().tokens()) / job.measured_step_seconds();
}

double PeakFlopsPerSecond(const v1::Job& job, const std::vector<v1::DeviceProfile>& profiles) {
  const std::string precision = absl::StrCat(" precision=", PrecisionOf(job.spec()), " ");
  std::map<std::string, double> by_kind;
  for (const v1::DeviceProfile& profile : profiles) {
    if (!absl::StrContains(absl::StrCat(profile.shape(), " "), precision)) continue;
    double& most = by_kind[profile.device_kind()];
    most = std::max(most, profile.matmul_flops_per_second());
  }
  double sum = 0;
  for (const v1::DeviceShare& device : job.plan().devices()) {
    if (!device.used()) continue;
    if (by_kind[device.kind()] <= 0) return 0;
    sum += by_kind[device.kind()];
  }
  return sum;
}

}  // namespace medley

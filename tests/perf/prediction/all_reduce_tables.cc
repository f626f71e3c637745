#include "tests/perf/prediction/all_reduce_tables.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"
#include "tests/perf/prediction/published_rows.h"

namespace medley {
namespace {

constexpr int kMostMembers = 8;
// size, count, type, and then nanoseconds and the rate out of place, and in place.
constexpr size_t kColumns = 7, kBytesColumn = 0, kInPlaceColumn = 5;
// Sizes nearer to each other say the same.
constexpr double kNextSize = 1.1, kTolerance = 0.01;
constexpr int kMostPoints = 64;

absl::StatusOr<LinkModel> ReadTable(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadDocumentFile(path));
  const absl::StatusOr<std::vector<std::vector<std::string>>> records = ParseCsv(text);
  if (!records.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ":", records.status().message()));
  std::vector<LinkPoint> points;
  for (size_t i = 1; i < records->size(); ++i) {
    const std::vector<std::string>& fields = (*records)[i];
    double bytes = 0, nanoseconds = 0;
    if (fields.size() != kColumns || !absl::SimpleAtod(fields[kBytesColumn], &bytes) ||
        !absl::SimpleAtod(fields[kInPlaceColumn], &nanoseconds)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": record ", i + 1,
                                                     " is not a size, a count, a type, ",
                                                     "and times with rates out of place and in place"));
    }
    if (points.empty() || bytes >= kNextSize * points.back().bytes)
      points.push_back({bytes, nanoseconds / 1e9});
  }
  if (points.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no row is there"));
  return FitLinkModel(points, kTolerance, kMostPoints);
}

}  // namespace

absl::StatusOr<std::vector<AllReduceTimes>> ReadAllReduceTables(const std::string& folder) {
  std::vector<AllReduceTimes> tables;
  for (int members = 2; members <= kMostMembers; ++members) {
    absl::StatusOr<LinkModel> table = ReadTable(absl::StrCat(folder, "/AR_GPU", members, "_1M_1024M_LUT"));
    if (absl::IsNotFound(table.status())) continue;
    RETURN_IF_ERROR(table.status());
    tables.push_back({members, *std::move(table)});
  }
  if (tables.empty())
    return absl::NotFoundError(absl::StrCat(folder, ": no AR_GPU2_1M_1024M_LUT to AR_GPU8_..."));
  return tables;
}

}  // namespace medley

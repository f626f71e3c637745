#include "cli/link_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/number_format.h"
#include "cli/text_table.h"
#include "runtime/base/bytes.h"
#include "runtime/wire/enum_names.h"
#include "runtime/wire/link_codec.h"

namespace medley {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// More do not fit on a terminal.
constexpr int kMostInMatrix = 12;
constexpr int64_t kCurveSizes[] = {8,       1 << 10, 4 << 10,  16 << 10, 64 << 10, 256 << 10,
                                   1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};

std::string FormatSize(uint64_t bytes) { return FormatBytes({static_cast<int64_t>(bytes)}); }

std::string AgeOf(const v1::LinkProfile& link, double now) {
  if (!(link.measured_at_seconds() > 0)) return "-";
  return absl::StrCat(FormatDuration(now - link.measured_at_seconds()), " ago");
}

// How the columns of a matrix are headed.
enum class DeviceHeads { kNames, kNumbers };

// By both ends, in the order of their names.
using ByEnds = std::map<std::pair<std::string, std::string>, const v1::LinkProfile*>;

ByEnds IndexOf(const v1::ListLinksResponse& links) {
  ByEnds index;
  for (const v1::LinkProfile& link : links.links()) index[std::minmax(link.a(), link.b())] = &link;
  return index;
}

std::string FormatMatrix(const v1::ListLinksResponse& links, const ByEnds& index, DeviceHeads heads) {
  const bool numbers = heads == DeviceHeads::kNumbers;
  Rows rows = {{""}};
  for (int column = 0; column < links.devices_size(); ++column) {
    rows[0].push_back(numbers ? absl::StrCat("[", column + 1, "]") : Printable(links.devices(column)));
  }
  for (int row = 0; row < links.devices_size(); ++row) {
    const std::string name = Printable(links.devices(row));
    rows.push_back({numbers ? absl::StrCat("[", row + 1, "] ", name) : name});
    for (int column = 0; column < links.devices_size(); ++column) {
      const auto found = index.find(std::minmax(links.devices(row), links.devices(column)));
      if (row == column) {
        rows.back().push_back("");
      } else if (found == index.end()) {
        rows.back().push_back("?");
      } else {
        rows.back().push_back(row < column ? FormatLatency(found->second->latency_seconds())
                                           : FormatBandwidth(found->second->bytes_per_second()));
      }
    }
  }
  return absl::StrCat(FormatTable(rows), "latency above the diagonal, bandwidth below it\n");
}

// The matrix as it fits; empty if it does not.
std::string FormatMatrixWithin(const v1::ListLinksResponse& links, const ByEnds& index, size_t columns) {
  for (const DeviceHeads heads : {DeviceHeads::kNames, DeviceHeads::kNumbers}) {
    std::string matrix = FormatMatrix(links, index, heads);
    const std::vector<std::string> lines = absl::StrSplit(matrix, '\n');
    const bool fits = std::all_of(lines.begin(), lines.end(),
                                  [&](const auto& line) { return DisplayWidth(line) <= columns; });
    if (columns == 0 || fits) return matrix;
  }
  return "";
}

std::string MeasuredBetween(const v1::LinkProfile& link) {
  return link.measured_between().empty() ? absl::StrCat(link.a(), " - ", link.b()) : link.measured_between();
}

// "tcp", "tcp, encryption"
std::string OverOf(const v1::LinkProfile& link) {
  const auto* value = v1::MessageProtection_descriptor()->FindValueByNumber(link.message_protection());
  if (link.message_protection() <= v1::MESSAGE_PROTECTION_NONE || value == nullptr)
    return Printable(link.transport());
  return absl::StrCat(Printable(link.transport()), ", ", NameOf(*value));
}

// One line for each measurement, however many pairs it stands for.
std::string FormatMeasurements(const v1::ListLinksResponse& links, double now, size_t columns) {
  std::map<std::string, int> pairs;
  for (const v1::LinkProfile& link : links.links()) ++pairs[MeasuredBetween(link)];
  Rows rows = {{"MEASURED BETWEEN", "PAIRS", "LATENCY", "BANDWIDTH", "OVER", "AGE", "WITH"}};
  std::set<std::string> seen;
  for (const v1::LinkProfile& link : links.links()) {
    const std::string between = MeasuredBetween(link);
    if (!seen.insert(between).second) continue;
    rows.push_back({Printable(between), absl::StrCat(pairs[between]), FormatLatency(link.latency_seconds()),
                    FormatBandwidth(link.bytes_per_second()), OverOf(link), AgeOf(link, now),
                    Printable(link.provenance())});
  }
  return rows.size() == 1 ? "" : FormatTable(rows, columns);
}

std::string AlgorithmName(v1::AllReduceAlgorithm algorithm) {
  const auto* value = v1::AllReduceAlgorithm_descriptor()->FindValueByNumber(algorithm);
  return value == nullptr ? absl::StrCat("algorithm ", static_cast<int>(algorithm)) : NameOf(*value);
}

}  // namespace

std::string FormatLinks(const v1::ListLinksResponse& links, double now_unix_seconds, size_t columns) {
  const ByEnds index = IndexOf(links);
  const int64_t count = links.devices_size();
  if (count < 2) return "fewer than two devices: there are no links\n";
  std::vector<std::string> parts;
  const std::string matrix = count <= kMostInMatrix ? FormatMatrixWithin(links, index, columns) : "";
  if (!matrix.empty()) parts.push_back(matrix);
  if (links.links_size() > 0) parts.push_back(FormatMeasurements(links, now_unix_seconds, columns));
  if (const int64_t unknown = count * (count - 1) / 2 - static_cast<int64_t>(index.size()); unknown > 0) {
    const std::string text =
        absl::StrCat(unknown, unknown == 1 ? " pair has" : " pairs have",
                     " not been measured; the first job that may use them does it, and so does "
                     "`medley links --refresh`");
    parts.push_back(absl::StrCat(absl::StrJoin(WrapText(text, columns), "\n"), "\n"));
  }
  return absl::StrJoin(parts, "\n");
}

std::string FormatLink(const v1::LinkProfile& link, double now_unix_seconds, size_t columns) {
  std::string text = absl::StrCat(Printable(link.a()), " - ", Printable(link.b()), "\n");
  const absl::StatusOr<LinkCost> cost = DecodeLink(link);
  if (!cost.ok()) return absl::StrCat(text, Printable(std::string(cost.status().message())), "\n");
  Rows rows = {{"SIZE", "ONE WAY", "RATE", "EXCHANGE AND ADD", "RATE"}};
  for (const int64_t size : kCurveSizes) {
    const double bytes = static_cast<double>(size);
    const double transfer = cost->transfer.Seconds(bytes), exchange = cost->exchange.Seconds(bytes);
    rows.push_back({FormatSize(size), FormatLatency(transfer), FormatBandwidth(bytes / transfer),
                    FormatLatency(exchange), FormatBandwidth(bytes / exchange)});
  }
  absl::StrAppend(&text, FormatTable(rows, columns));
  Rows facts;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") facts.push_back({name, Printable(value)});
  };
  add("over", OverOf(link));
  add("measured", AgeOf(link, now_unix_seconds));
  add("between", link.measured_between());
  add("with", link.provenance());
  add("points", absl::StrCat(cost->transfer.points.size(), " one way, ", cost->exchange.points.size(),
                             " of an exchange; straight lines between them"));
  for (const std::vector<std::string>& fact : facts) {
    absl::StrAppend(&text, absl::StrJoin(WrapText(absl::StrCat(fact[0], ": ", fact[1]), columns), "\n  "),
                    "\n");
  }
  return text;
}

std::string FormatAllReduce(const v1::AllReduceExplanation& explanation, size_t columns) {
  Rows rows = {{"", "ALGORITHM", "PREDICTED", "HOW"}};
  for (const v1::AllReduceCandidate& candidate : explanation.candidates()) {
    const bool possible = candidate.impossible().empty();
    rows.push_back({candidate.algorithm() == explanation.chosen() ? "*" : "",
                    AlgorithmName(candidate.algorithm()),
                    possible ? FormatLatency(candidate.predicted_seconds()) : "-",
                    Printable(possible ? candidate.shape() : candidate.impossible())});
  }
  return absl::StrCat("summing ", FormatSize(explanation.bytes()), " of f32 over ",
                      explanation.devices_size(), " devices: ", AlgorithmName(explanation.chosen()), "\n",
                      FormatTable(rows, columns));
}

std::string FormatTraffic(const v1::Trace& trace, size_t columns) {
  Rows rows = {{"DEVICE", "PEER", "OPERATION", "SENT", "RECEIVED", "MESSAGES", "WAITED", "OVER"}};
  std::string dropped;
  for (const v1::TraceLane& lane : trace.lanes()) {
    for (const v1::PeerTraffic& traffic : lane.traffic()) {
      if (traffic.dropped_messages() > 0) {
        absl::StrAppend(&dropped, Printable(lane.device()), " dropped ", traffic.dropped_messages(),
                        " messages of other attempts\n");
      }
      if (traffic.operation().empty()) continue;  // of dropped messages alone
      const bool known = traffic.peer() < static_cast<uint32_t>(trace.lanes_size());
      rows.push_back({Printable(lane.device()),
                      known ? Printable(trace.lanes(static_cast<int>(traffic.peer())).device())
                            : absl::StrCat("rank ", traffic.peer()),
                      Printable(traffic.operation()), FormatSize(traffic.bytes_sent()),
                      FormatSize(traffic.bytes_received()),
                      absl::StrCat(traffic.messages_sent(), " + ", traffic.messages_received()),
                      FormatLatency(traffic.wait_seconds()), Printable(traffic.strategy())});
    }
  }
  const std::string title = absl::StrCat("since the attempt began, until step ", trace.step(), "\n");
  if (rows.size() == 1) return absl::StrCat(title, "nothing was sent between ranks\n", dropped);
  return absl::StrCat(title, FormatTable(rows, columns), dropped);
}

}  // namespace medley

#include "cli/what_if.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/offline_plan.h"
#include "coordinator/problem/cluster_change.h"
#include "coordinator/wire/kind_profiles.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

constexpr char kToday[] = "today's cluster";

// "kind=cpu, 2 cores,count=3": a value ends where the next of these names begins, for kinds may have commas.
constexpr std::array<absl::string_view, 6> kAddFields = {"kind", "count", "node", "price", "site", "rack"};

absl::StatusOr<std::map<std::string, std::string>> FieldsOf(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::string* value = nullptr;
  for (size_t i = 0; i < text.size();) {
    const bool begins = i == 0 || text[i] == ',';
    const absl::string_view rest = absl::string_view(text).substr(begins && i > 0 ? i + 1 : i);
    const auto field = std::find_if(kAddFields.begin(), kAddFields.end(), [&](absl::string_view name) {
      return begins && absl::StartsWith(rest, name) && absl::StartsWith(rest.substr(name.size()), "=");
    });
    if (field == kAddFields.end()) {
      if (value == nullptr)
        return absl::InvalidArgumentError(
            "must be kind=KIND,count=NUMBER, and if wanted node=NAME, price=PER_HOUR, site=SITE and "
            "rack=RACK");
      *value += text[i++];
      continue;
    }
    const auto [place, is_new] = fields.try_emplace(std::string(*field));
    if (!is_new) return absl::InvalidArgumentError(absl::StrCat(std::string(*field), " is there twice"));
    value = &place->second;
    i += (i > 0 ? 1 : 0) + field->size() + 1;
  }
  return fields;
}

// As the cluster's devices write the kind, whose case does not matter; empty: it is none of theirs.
std::string KindAsIn(const Cluster& cluster, const std::string& kind) {
  std::string found;
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) {
      if (device.kind == kind) return kind;
      if (absl::EqualsIgnoreCase(device.kind, kind)) found = device.kind;
    }
  }
  return found;
}

// `before`: the cluster before devices were removed of it.
absl::Status Add(const std::string& text, const DataSheets& sheets, const Cluster& before, Cluster& cluster,
                 std::set<std::string>& kinds_by_sheet) {
  ASSIGN_OR_RETURN(auto fields, FieldsOf(text));
  AddedDevices added{.kind = fields["kind"], .node = fields["node"]};
  if (fields.contains("site")) added.site = fields["site"];
  if (fields.contains("rack")) added.rack = fields["rack"];
  if (added.kind.empty())
    return absl::InvalidArgumentError(absl::StrCat("kind: is missing; ", DescribeNames(before)));
  if (!fields.contains("count"))
    return absl::InvalidArgumentError(absl::StrCat("count: is missing, of kind \"", added.kind,
                                                   "\"; must be a whole number of devices, 1 to 65536"));
  if (!absl::SimpleAtoi(fields["count"], &added.count) || added.count < 1 || added.count > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("count: \"", fields["count"], "\" must be a whole number of devices, 1 to 65536"));
  }
  if (fields.contains("price") && !fields["price"].empty()) {
    double price;
    if (!absl::SimpleAtod(fields["price"], &price) || !std::isfinite(price) || price < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("price: \"", fields["price"], "\" must be a number an hour, 0 or more"));
    added.price_per_hour = price;
  }
  std::string known = KindAsIn(before, added.kind);
  if (known.empty()) known = KindAsIn(cluster, added.kind);
  if (known.empty() && sheets.directory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: no device is a \"", added.kind,
                     "\", and without --kinds DIR there is no data sheet of it; ", DescribeNames(before)));
  }
  if (known.empty()) {
    ASSIGN_OR_RETURN(const KindSheet sheet, ReadKindSheet(sheets.directory, added.kind));
    known = sheet.device.kind;
    if (KindAsIn(before, known).empty()) kinds_by_sheet.insert(known);
    added.like = sheet.device;
    added.link_of_node = sheet.link_of_node;
  }
  added.kind = known;
  return AddDevices(added, cluster, &before);
}

// "10Gbit", "1.25GB"; powers of 1000.
std::optional<double> ParseBytesPerSecond(absl::string_view text) {
  constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"Tbit", 1.25e11}, {"Gbit", 1.25e8}, {"Mbit", 1.25e5}, {"kbit", 125},
      {"TB", 1e12},      {"GB", 1e9},      {"MB", 1e6},      {"kB", 1e3}};
  if (absl::EndsWith(text, "/s")) text.remove_suffix(2);
  for (const auto& [unit, bytes_per_second] : kUnits) {
    double number;
    if (!absl::EndsWith(text, unit)) continue;
    if (!absl::SimpleAtod(text.substr(0, text.size() - unit.size()), &number)) return std::nullopt;
    if (!std::isfinite(number) || number <= 0) return std::nullopt;
    return number * bytes_per_second;
  }
  return std::nullopt;
}

absl::Status Link(const std::string& text, Cluster& cluster) {
  const auto wrong = [&](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) return wrong("must be A-B=RATE[,LATENCY], as in north-south=10Gbit,50us");
  const std::string ends = text.substr(0, equals), figures = text.substr(equals + 1);
  const size_t comma = figures.find(',');
  const std::optional<double> rate = ParseBytesPerSecond(figures.substr(0, comma));
  if (!rate)
    return wrong("\"", figures.substr(0, comma), "\" must be a rate above 0, as in 10Gbit, 400Mbit or 25GB");
  std::optional<double> latency_seconds;
  if (comma != std::string::npos) {
    const std::string given = figures.substr(comma + 1);
    absl::Duration latency;
    if (!absl::ParseDuration(given, &latency) || latency < absl::ZeroDuration() || latency > absl::Hours(1))
      return wrong("\"", given, "\" must be a latency, as in 50us or 2ms");
    latency_seconds = absl::ToDoubleSeconds(latency);
  }
  // Names may have a "-" themselves.
  std::string a, b;
  int most_known = -1;
  for (size_t dash = ends.find('-'); dash != std::string::npos; dash = ends.find('-', dash + 1)) {
    const std::string first = ends.substr(0, dash), second = ends.substr(dash + 1);
    const int known = (IsEndOfLinks(first, cluster) ? 1 : 0) + (IsEndOfLinks(second, cluster) ? 1 : 0);
    if (known < most_known) continue;  // of equal ones the last
    most_known = known;
    a = first;
    b = second;
  }
  if (a.empty() || b.empty())
    return wrong("\"", ends, "\" must be two names with a \"-\" between; ", DescribeNames(cluster));
  return SetLink(a, b, *rate, latency_seconds, cluster);
}

// Of one figure on both clusters.
void AddFigure(const std::string& name, const std::string& kind, double today, double changed,
               v1::WhatIfReport& report) {
  if (today == 0 && changed == 0) return;
  v1::WhatIfFigure& figure = *report.add_figures();
  figure.set_name(name);
  figure.set_kind(kind);
  figure.set_today(today);
  figure.set_changed(changed);
  if (today > 0) figure.set_difference_percent((changed / today - 1) * 100);
}

struct OfKind {
  double peak_memory_bytes = 0, used = 0, unused = 0;
};

std::map<std::string, OfKind> ByKind(const v1::PlanReport& report) {
  std::map<std::string, OfKind> kinds;
  for (const v1::DeviceShare& device : report.devices()) {
    OfKind& kind = kinds[device.kind()];
    (device.used() ? kind.used : kind.unused) += 1;
    kind.peak_memory_bytes =
        std::max(kind.peak_memory_bytes, static_cast<double>(device.peak_memory_bytes()));
  }
  return kinds;
}

void AddFigures(v1::WhatIfReport& report) {
  const v1::PlanReport &today = report.today(), &changed = report.changed();
  const auto add = [&](const char* name, double (v1::PlanReport::*value)() const) {
    AddFigure(name, "", (today.*value)(), (changed.*value)(), report);
  };
  add("tokens_per_second", &v1::PlanReport::predicted_tokens_per_second);
  add("step_seconds", &v1::PlanReport::predicted_step_seconds);
  add("job_seconds", &v1::PlanReport::job_seconds);
  add("price_per_hour", &v1::PlanReport::price_per_hour);
  add("cost_per_million_tokens", &v1::PlanReport::cost_per_million_tokens);
  add("job_cost", &v1::PlanReport::job_cost);
  std::map<std::string, std::pair<OfKind, OfKind>> kinds;
  for (const auto& [kind, figures] : ByKind(today)) kinds[kind].first = figures;
  for (const auto& [kind, figures] : ByKind(changed)) kinds[kind].second = figures;
  for (const auto& [name, value] :
       {std::pair("devices_used", &OfKind::used), std::pair("devices_left_out", &OfKind::unused),
        std::pair("peak_memory_bytes", &OfKind::peak_memory_bytes)}) {
    for (const auto& [kind, figures] : kinds)
      AddFigure(name, kind, figures.first.*value, figures.second.*value, report);
  }
}

}  // namespace

absl::StatusOr<ChangedCluster> ChangeCluster(const v1::ClusterSpec& today, const WhatIfChanges& changes,
                                             const DataSheets& sheets) {
  absl::StatusOr<Cluster> decoded = DecodeCluster(changes.other ? *changes.other : today);
  RETURN_IF_ERROR(Annotate(decoded.status(), changes.other ? "--cluster" : kToday));
  const Cluster before = *std::move(decoded);
  Cluster changed = before;
  std::set<std::string> kinds_by_sheet;
  std::vector<std::string> added;
  for (const std::string& name : changes.removes)
    RETURN_IF_ERROR(Annotate(RemoveDevices(name, changed), absl::StrCat("--remove ", name)));
  for (const std::string& text : changes.adds) {
    RETURN_IF_ERROR(
        Annotate(Add(text, sheets, before, changed, kinds_by_sheet), absl::StrCat("--add ", text)));
    const std::string& site = changed.nodes.back().site;
    added.push_back(site.empty() || absl::StrContains(text, "site=")
                        ? text
                        : absl::StrCat(text, " (at site ", site, ")"));
  }
  if (changed.nodes.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("--remove ", changes.removes.back(), ": no device is left"));
  for (const std::string& text : changes.links)
    RETURN_IF_ERROR(Annotate(Link(text, changed), absl::StrCat("--link ", text)));
  ChangedCluster result{EncodeCluster(changed), std::move(kinds_by_sheet), std::move(added)};
  *result.cluster.mutable_live_errors() = (changes.other ? *changes.other : today).live_errors();
  return result;
}

absl::StatusOr<v1::WhatIfReport> AnswerWhatIf(const v1::PlanJobRequest& request, const v1::ClusterSpec& today,
                                              const WhatIfChanges& changes, const DataSheets& sheets) {
  RETURN_IF_ERROR(Annotate(DecodeCluster(today).status(), kToday));
  ASSIGN_OR_RETURN(const ChangedCluster changed, ChangeCluster(today, changes, sheets));
  v1::WhatIfReport report;
  if (changes.other) report.add_changes(absl::StrCat("with ", changes.other_name));
  for (const std::string& text : changes.removes) report.add_changes(absl::StrCat("removed ", text));
  for (const std::string& text : changed.added) report.add_changes(absl::StrCat("added ", text));
  for (const std::string& text : changes.links) report.add_changes(absl::StrCat("link ", text));
  const std::string sheets_of_today = sheets.of_added_alone ? "" : sheets.directory;
  ASSIGN_OR_RETURN(*report.mutable_today(), PlanOffline(request, today, sheets_of_today, Comparison::kNone));
  std::optional<std::set<std::string>> kinds_by_sheet;
  if (sheets.of_added_alone) kinds_by_sheet = changed.kinds_by_sheet;
  absl::StatusOr<v1::PlanReport> then =
      PlanOffline(request, changed.cluster, sheets.directory, Comparison::kNone, kinds_by_sheet);
  RETURN_IF_ERROR(Annotate(then.status(), "with the changes"));
  *report.mutable_changed() = *std::move(then);
  AddFigures(report);
  return report;
}

}  // namespace medley

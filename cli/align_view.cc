#include "cli/align_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/text_table.h"
#include "runtime/base/bytes.h"

namespace medley {
namespace {

constexpr size_t kShapeColumns = 72;
constexpr char kOracleName[] = "the reference";

const DeviceRecord& RecordOf(const AlignmentReport& report, Party party) {
  return report.records[static_cast<int>(party)];
}

std::string DeviceName(const AlignmentReport& report, Party party) {
  if (party == Party::kOracle) return kOracleName;
  const std::string& name = RecordOf(report, party).device;
  const bool twice = RecordOf(report, Party::kA).device == RecordOf(report, Party::kB).device;
  return Printable(twice ? absl::StrCat(name, party == Party::kA ? " (A)" : " (B)") : name);
}

const Difference& DifferenceOf(const OutputComparison& output, Pair pair) {
  return output.differences[static_cast<int>(pair)];
}

std::string Figure(double value) {
  return value >= kNotFinite ? "any" : value == 0 ? "0" : absl::StrFormat("%.2g", value);
}

std::string PlaceText(const CallComparison& call) {
  return absl::StrCat(
      "step ", call.place.step, ", op call ", call.place.index,
      call.place.position.empty() ? "" : absl::StrCat(" (", Printable(call.place.position), ")"), ", ",
      NameOf(call.kind), " ", call.shape);
}

// "c differs by up to 0.0012 (35 of 4096 elements beyond what is allowed, the worst 12 times: 0.5 instead of
// 0.4)"
std::string DifferenceText(const OutputComparison& output, Pair pair) {
  const Difference& d = DifferenceOf(output, pair);
  const std::string times =
      d.worst_ratio >= kNotFinite ? "" : absl::StrFormat(", %.3g times that", d.worst_ratio);
  return absl::StrFormat(
      "%s differs by up to %.3g, %d of %d elements by more than is allowed; worst is element %d%s: "
      "%.9g instead of %.9g",
      output.name, d.max_absolute, d.wrong, d.elements, d.worst, times, d.worst_got, d.worst_want);
}

// Which of the devices is to blame for a call that is not aligned.
std::string BlameText(const AlignmentReport& report, const CallComparison& call) {
  std::vector<std::string> parts;
  for (const Party party : {Party::kA, Party::kB, Party::kOracle}) {
    if (!call.failed(party)) continue;
    parts.push_back(absl::StrCat(DeviceName(report, party), " could not run it: ",
                                 Printable(std::string(call.statuses[static_cast<int>(party)].message()))));
  }
  if (!parts.empty()) return absl::StrJoin(parts, "; ");
  const std::string a = DeviceName(report, Party::kA), b = DeviceName(report, Party::kB);
  const bool a_off = call.parted(Pair::kAToOracle), b_off = call.parted(Pair::kBToOracle);
  if (a_off && b_off) return absl::StrCat("both ", a, " and ", b, " are off ", kOracleName);
  if (a_off) return absl::StrCat(a, " is off ", kOracleName, ", ", b, " is not");
  if (b_off) return absl::StrCat(b, " is off ", kOracleName, ", ", a, " is not");
  return absl::StrCat("each is within what is allowed of ", kOracleName, ", but they are too far apart");
}

std::string TrainingFailure(const AlignmentReport& report) {
  for (const Party party : {Party::kA, Party::kB}) {
    const absl::Status& status = RecordOf(report, party).training;
    if (status.ok()) continue;
    return absl::StrCat(DeviceName(report, party),
                        " did not train to the end: ", Printable(std::string(status.message())));
  }
  return "";
}

std::string OpTable(const AlignmentReport& report) {
  std::vector<std::vector<std::string>> rows = {{"OP", "SHAPE", "CALLS", "PARTED", "WORST", "A/ALLOWED",
                                                 "B/ALLOWED", "B-A/ALLOWED", "MAX ABS", "MAX REL", "1-COSINE",
                                                 "NOT FINITE"}};
  for (const OpSummary& op : report.alignment.Summaries()) {
    const auto worst = [&](Pair pair) -> const Difference& { return op.worst[static_cast<int>(pair)]; };
    rows.push_back({NameOf(op.kind), CutToWidth(op.shape, kShapeColumns), absl::StrCat(op.calls),
                    absl::StrCat(op.parted), op.worst_output.empty() ? "-" : op.worst_output,
                    Figure(worst(Pair::kAToOracle).worst_ratio), Figure(worst(Pair::kBToOracle).worst_ratio),
                    Figure(worst(Pair::kBToA).worst_ratio), Figure(worst(Pair::kBToA).max_absolute),
                    Figure(worst(Pair::kBToA).max_relative), Figure(1 - op.lowest_cosine),
                    absl::StrCat(op.not_finite)});
  }
  return FormatTable(rows);
}

std::string LossTable(const AlignmentReport& report) {
  std::vector<std::vector<std::string>> rows = {{"STEP", "LOSS A", "LOSS B", "RELATIVE"}};
  for (size_t i = 0; i < report.losses.losses_a.size(); ++i) {
    const double a = report.losses.losses_a[i], b = report.losses.losses_b[i];
    rows.push_back({absl::StrCat(i + 1), absl::StrFormat("%.7f", a), absl::StrFormat("%.7f", b),
                    Figure(a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)))});
  }
  return FormatTable(rows);
}

std::string DetailText(const AlignmentReport& report) {
  std::string text;
  for (const CallComparison& call : report.alignment.details()) {
    absl::StrAppend(&text, "\n", PlaceText(call), "\n  ", BlameText(report, call), "\n");
    for (const OutputComparison& output : call.outputs) {
      const auto line = [&](Pair pair, const std::string& between) {
        if (!output.parted(pair)) return;
        absl::StrAppend(&text, "  ", between, ": ", DifferenceText(output, pair), "\n");
      };
      line(Pair::kAToOracle, "A to the reference");
      line(Pair::kBToOracle, "B to the reference");
      line(Pair::kBToA, "B to A");
    }
  }
  const int64_t more = report.alignment.parted() - static_cast<int64_t>(report.alignment.details().size());
  if (more > 0) absl::StrAppend(&text, "\n", more, " more calls parted.\n");
  return text;
}

std::string CaptureText(const CaptureCounts& counts) {
  std::vector<std::string> left_out;
  const auto add = [&](int64_t count, const std::string& why) {
    if (count > 0) left_out.push_back(absl::StrCat(count, " ", why));
  };
  add(counts.repeats, "repeats in later micro-batches");
  add(counts.over_calls_of_a_shape, "beyond the calls of one shape in a step (--calls-per-shape)");
  add(counts.over_one_call, "too large for one call");
  add(counts.over_steps, "beyond the bytes of a step (--step-bytes)");
  add(counts.impossible, "that cannot be run again");
  std::string text = absl::StrCat("Captured ", counts.captured, " of ", counts.calls, " op calls, ",
                                  FormatBytes(counts.captured_bytes));
  if (!left_out.empty()) absl::StrAppend(&text, "; left out: ", absl::StrJoin(left_out, ", "));
  if (counts.shortened > 0) {
    absl::StrAppend(&text, "; ", counts.shortened,
                    " of the captured ones go over a whole arena and were shortened");
  }
  return text + ".\n";
}

}  // namespace

bool IsAligned(const AlignmentReport& report) {
  return report.alignment.aligned() && report.alignment.calls() > 0 && report.losses.aligned() &&
         TrainingFailure(report).empty();
}

std::string Verdict(const AlignmentReport& report) {
  const std::string devices =
      absl::StrCat(DeviceName(report, Party::kA), " and ", DeviceName(report, Party::kB));
  if (!report.alignment.aligned()) {
    const CallComparison& first = report.alignment.details().front();
    return absl::StrCat(devices, " part first at ", PlaceText(first), ": ", BlameText(report, first));
  }
  if (const std::string failure = TrainingFailure(report); !failure.empty()) return failure;
  if (report.alignment.calls() == 0) return "no op call was captured: nothing was compared";
  if (!report.losses.aligned()) {
    return absl::StrFormat("%s agree in every op that was compared, but their losses part at step %d",
                           devices, report.losses.first_parted_step);
  }
  return absl::StrFormat("%s are aligned: %d op calls and %d losses are within what is allowed", devices,
                         report.alignment.calls(), report.losses.losses_a.size());
}

std::string FormatAlignment(const AlignmentReport& report) {
  std::string text = Verdict(report) + "\n\n";
  for (const Party party : {Party::kA, Party::kB}) {
    const DeviceRecord& record = RecordOf(report, party);
    absl::StrAppend(&text, party == Party::kA ? "A  " : "B  ", DeviceName(report, party), ": ",
                    Printable(record.name), ", computes in ", std::string(NameOf(record.computes_in)), "\n");
  }
  absl::StrAppend(&text, "\n", OpTable(report));
  if (!report.losses.losses_a.empty()) absl::StrAppend(&text, "\n", LossTable(report));
  absl::StrAppend(&text, DetailText(report), "\n", CaptureText(RecordOf(report, Party::kA).capture));
  return text;
}

}  // namespace medley

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/align_view.h"

namespace medley {
namespace {

using nlohmann::json;

json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json DifferenceJson(const Difference& difference) {
  return {{"elements", difference.elements},
          {"wrong", difference.wrong},
          {"max_absolute", difference.max_absolute},
          {"max_relative", difference.max_relative},
          {"cosine", difference.cosine},
          {"of_allowed", difference.worst_ratio >= kNotFinite ? json("inf") : json(difference.worst_ratio)},
          {"not_finite", difference.got_not_finite},
          {"worst_element", difference.worst},
          {"worst_got", Number(difference.worst_got)},
          {"worst_want", Number(difference.worst_want)}};
}

json PairsJson(const std::array<Difference, kPairs>& differences) {
  return {{"a_to_reference", DifferenceJson(differences[static_cast<int>(Pair::kAToOracle)])},
          {"b_to_reference", DifferenceJson(differences[static_cast<int>(Pair::kBToOracle)])},
          {"b_to_a", DifferenceJson(differences[static_cast<int>(Pair::kBToA)])}};
}

json StatusJson(const absl::Status& status) { return status.ok() ? "" : std::string(status.message()); }

json CallJson(const CallComparison& call) {
  json outputs = json::array();
  for (const OutputComparison& output : call.outputs) {
    json entry = PairsJson(output.differences);
    entry["name"] = output.name;
    outputs.push_back(std::move(entry));
  }
  return {{"index", call.place.index},
          {"step", call.place.step},
          {"position", call.place.position},
          {"op", NameOf(call.kind)},
          {"shape", call.shape},
          {"error_a", StatusJson(call.statuses[static_cast<int>(Party::kA)])},
          {"error_b", StatusJson(call.statuses[static_cast<int>(Party::kB)])},
          {"error_reference", StatusJson(call.statuses[static_cast<int>(Party::kOracle)])},
          {"outputs", std::move(outputs)}};
}

json DeviceJson(const DeviceRecord& record) {
  return {{"device", record.device},
          {"name", record.name},
          {"computes_in", std::string(NameOf(record.computes_in))},
          {"losses", record.losses},
          {"training_error", StatusJson(record.training)}};
}

json CaptureJson(const CaptureCounts& counts) {
  return {{"calls", counts.calls},
          {"captured", counts.captured},
          {"captured_bytes", counts.captured_bytes.value},
          {"shortened", counts.shortened},
          {"left_out",
           {{"repeats", counts.repeats},
            {"over_calls_per_shape", counts.over_calls_of_a_shape},
            {"over_one_call", counts.over_one_call},
            {"over_step_bytes", counts.over_steps},
            {"impossible", counts.impossible}}}};
}

}  // namespace

std::string AlignmentJson(const AlignmentReport& report) {
  json ops = json::array(), parted = json::array();
  for (const OpSummary& op : report.alignment.Summaries()) {
    json entry = PairsJson(op.worst);
    entry.update({{"op", NameOf(op.kind)},
                  {"shape", op.shape},
                  {"calls", op.calls},
                  {"parted", op.parted},
                  {"worst_output", op.worst_output},
                  {"lowest_cosine", op.lowest_cosine},
                  {"not_finite", op.not_finite}});
    ops.push_back(std::move(entry));
  }
  for (const CallComparison& call : report.alignment.details()) parted.push_back(CallJson(call));
  const json whole = {{"aligned", IsAligned(report)},
                      {"verdict", Verdict(report)},
                      {"a", DeviceJson(report.records[static_cast<int>(Party::kA)])},
                      {"b", DeviceJson(report.records[static_cast<int>(Party::kB)])},
                      {"capture", CaptureJson(report.records[static_cast<int>(Party::kA)].capture)},
                      {"calls", report.alignment.calls()},
                      {"calls_parted", report.alignment.parted()},
                      {"losses",
                       {{"worst_relative", report.losses.worst_relative},
                        {"tolerance", report.losses.tolerance},
                        {"first_parted_step", report.losses.first_parted_step}}},
                      {"ops", std::move(ops)},
                      {"parted", std::move(parted)}};
  return whole.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

}  // namespace medley

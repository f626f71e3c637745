#include "cli/plan_data.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

#include "absl/strings/str_replace.h"
#include "cli/number_format.h"
#include "cli/views.h"
#include "runtime/base/version.h"
#include "runtime/wire/enum_names.h"

namespace medley {
namespace {

using nlohmann::json;

// A power of ten.
double TickSeconds(double step_seconds) {
  if (!(step_seconds > 0) || !std::isfinite(step_seconds)) return 1e-9;
  return std::pow(10.0, std::floor(std::log10(step_seconds)) - 9);
}

int64_t Ticks(double seconds, double tick_seconds) {
  if (!std::isfinite(seconds)) return 0;
  return static_cast<int64_t>(std::llround(seconds / tick_seconds));
}

// By device, ranges of blocks.
using Blocks = std::map<std::string, json>;

Blocks BlocksOf(const v1::Plan& plan) {
  Blocks blocks;
  for (const v1::Unit& unit : plan.units()) {
    for (const std::string& name : unit.devices()) {
      json& of_device = blocks.try_emplace(name, json::array()).first->second;
      for (const v1::BlockRange& range : unit.blocks()) of_device.push_back({range.first(), range.end()});
    }
  }
  return blocks;
}

json MemoryOf(const v1::DeviceMemory& memory) {
  return {{"weights", memory.parameter_bytes()},   {"gradients", memory.gradient_bytes()},
          {"optimizer", memory.optimizer_bytes()}, {"activations", memory.activation_bytes()},
          {"boundaries", memory.boundary_bytes()}, {"sums", memory.sum_bytes()},
          {"windows", memory.window_bytes()},      {"copies", memory.copy_bytes()},
          {"host", memory.host_bytes()},           {"host_limit", memory.host_limit_bytes()}};
}

json DeviceData(const v1::DeviceShare& device, const Blocks& all_blocks) {
  const auto blocks = all_blocks.find(device.device());
  json data = {{"name", device.device()},
               {"kind", device.kind()},
               {"used", device.used()},
               {"busy", device.busy_share()},
               {"peak", device.peak_memory_bytes()},
               {"limit", device.memory_limit_bytes()},
               {"blocks", blocks == all_blocks.end() ? json::array() : blocks->second},
               {"micro_batches", device.micro_batches()},
               {"emulated", device.emulated()},
               {"computes_f32_instead", device.computes_f32_instead()}};
  if (device.has_memory()) data["memory"] = MemoryOf(device.memory());
  return data;
}

// What instructions do, each named once.
class Whats {
 public:
  int IndexOf(const v1::PredictedInstruction& instruction) {
    const auto [index, is_new] = indices_.try_emplace(
        std::make_tuple(static_cast<int>(instruction.instruction_class()), instruction.kind(),
                        instruction.stream(), instruction.blocks().first(), instruction.blocks().end(),
                        instruction.bytes()),
        static_cast<int>(list_.size()));
    if (is_new) list_.push_back(DataOf(instruction));
    return index->second;
  }
  json Take() { return std::move(list_); }

 private:
  static json DataOf(const v1::PredictedInstruction& instruction) {
    const auto* value = v1::InstructionClass_descriptor()->FindValueByNumber(instruction.instruction_class());
    json data = {{"class", value == nullptr ? "unspecified" : NameOf(*value)},
                 {"kind", instruction.kind()},
                 {"stream", instruction.stream()},
                 {"bytes", instruction.bytes()}};
    if (instruction.has_blocks()) data["blocks"] = {instruction.blocks().first(), instruction.blocks().end()};
    return data;
  }

  std::map<std::tuple<int, std::string, uint32_t, uint32_t, uint32_t, uint64_t>, int> indices_;
  json list_ = json::array();
};

json LaneData(const v1::PredictedLane& lane, double tick_seconds, Whats& whats) {
  json devices = json::array(), instructions = json::array(), memory = json::array();
  for (const v1::LaneDevice& device : lane.devices())
    devices.push_back({{"name", device.device()}, {"first_micro_batch", device.first_micro_batch()}});
  for (const v1::PredictedInstruction& instruction : lane.instructions()) {
    const int64_t start = Ticks(instruction.start_seconds(), tick_seconds);
    const int64_t end = Ticks(instruction.end_seconds(), tick_seconds);
    instructions.push_back({whats.IndexOf(instruction), instruction.micro_batch(), start, end - start});
  }
  for (const v1::PredictedMemoryUse& use : lane.memory())
    memory.push_back({Ticks(use.from_seconds(), tick_seconds), use.activation_bytes(), use.boundary_bytes()});
  return {{"kind", lane.kind()},
          {"devices", std::move(devices)},
          {"left_out", lane.left_out()},
          {"instructions", std::move(instructions)},
          {"memory", std::move(memory)}};
}

json RejectedData(const v1::PlanReport& report) {
  json rejected = json::array();
  for (const v1::RejectedPlan& plan : report.rejected()) {
    rejected.push_back({{"kind", plan.kind()},
                        {"description", plan.description()},
                        {"step_seconds", plan.predicted_step_seconds()},
                        {"why", plan.why_slower()}});
  }
  return rejected;
}

json KindsData(const v1::PlanReport& report) {
  json kinds = json::array();
  for (const v1::KindShare& kind : report.kinds()) {
    kinds.push_back({{"kind", kind.kind()},
                     {"devices", kind.devices()},
                     {"used", kind.used()},
                     {"work_share", kind.work_share()},
                     {"busy_share", kind.busy_share()},
                     {"memory_share", kind.memory_share()}});
  }
  return kinds;
}

json HelpsData(const v1::PlanReport& report) {
  json helps = json::array();
  for (const v1::HelpfulChange& change : report.helpful_changes()) {
    helps.push_back({{"change", change.change()},
                     {"step_seconds", change.predicted_step_seconds()},
                     {"planned_anew", change.planned_anew()}});
  }
  return helps;
}

json ParetoData(const v1::PlanReport& report) {
  json plans = json::array();
  for (const v1::ParetoPlan& plan : report.pareto()) {
    json devices = json::array();
    for (const v1::KindCount& count : plan.devices()) devices.push_back({count.kind(), count.devices()});
    plans.push_back({{"devices", std::move(devices)},
                     {"chosen", plan.chosen()},
                     {"step_seconds", plan.predicted_step_seconds()},
                     {"price_per_hour", plan.price_per_hour()},
                     {"price", FormatAmount(plan.price_per_hour())},
                     {"duration", FormatDuration(plan.job_seconds())},
                     {"cost", FormatAmount(plan.job_cost())},
                     {"bottleneck", plan.bottleneck()}});
  }
  return plans;
}

json ProfilesData(const v1::PlanReport& report) {
  json profiles = json::array();
  for (const v1::ProfileUse& use : report.profiles()) {
    profiles.push_back({{"kind", use.device_kind()},
                        {"share", use.share()},
                        {"measured_at", FormatTime(use.measured_at_seconds())},
                        {"provenance", use.provenance()},
                        {"spread", use.spread()},
                        {"doubts", json(std::vector<std::string>(use.doubts().begin(), use.doubts().end()))},
                        {"correction", use.correction()}});
  }
  return profiles;
}

}  // namespace

json PlanData(const std::string& title, const v1::PlanReport& report) {
  const double tick_seconds = TickSeconds(report.predicted_step_seconds());
  Whats whats;
  json devices = json::array(), left_out = json::array(), lanes = json::array();
  const Blocks blocks = BlocksOf(report.plan());
  for (const v1::DeviceShare& device : report.devices()) devices.push_back(DeviceData(device, blocks));
  for (const v1::LeftOutDevice& device : report.left_out())
    left_out.push_back({{"name", device.device()}, {"why", device.why()}});
  for (const v1::PredictedLane& lane : report.predicted_step().lanes())
    lanes.push_back(LaneData(lane, tick_seconds, whats));
  return {{"title", title},
          {"version", kMedleyVersion},
          {"description", report.description()},
          {"step_seconds", report.predicted_step_seconds()},
          {"tokens_per_second", report.predicted_tokens_per_second()},
          {"quality", QualityOf(report)},
          {"error", ErrorOf(report)},
          {"price", PriceOf(report)},
          {"lower_bound_seconds", report.lower_bound_seconds()},
          {"simulated_plans", report.simulated_plans()},
          {"bubble_share", report.bubble_share()},
          {"bottleneck", report.bottleneck()},
          {"fitting", report.fitting()},
          {"orders", report.orders()},
          {"reductions", report.reductions()},
          {"exchanges", report.exchanges()},
          {"messages", ProtectionOf(report)},
          {"explanation", report.explanation()},
          {"compared", report.compared()},
          {"rejected", RejectedData(report)},
          {"kinds", KindsData(report)},
          {"helps", HelpsData(report)},
          {"pareto", ParetoData(report)},
          {"pareto_complete", report.pareto_complete()},
          {"profiles", ProfilesData(report)},
          {"devices", std::move(devices)},
          {"left_out", std::move(left_out)},
          {"has_predicted_step", report.has_predicted_step()},
          {"tick_seconds", tick_seconds},
          {"whats", whats.Take()},
          {"lanes", std::move(lanes)}};
}

std::string ScriptText(const json& data) {
  return absl::StrReplaceAll(data.dump(-1, ' ', true, json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace medley

#include "coordinator/problem/plan_report.h"

#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

v1::DeviceShare EncodeDevice(const Explanation::Device& device) {
  v1::DeviceShare share;
  share.set_device(device.name);
  share.set_kind(device.kind);
  share.set_used(device.used);
  share.set_busy_share(device.busy_share);
  share.set_peak_memory_bytes(device.peak_memory.value);
  share.set_memory_limit_bytes(device.memory_limit.value);
  share.set_blocks(device.blocks);
  share.set_micro_batches(device.micro_batches);
  return share;
}

v1::RejectedPlan EncodeRejected(const Explanation::Rejected& rejected) {
  v1::RejectedPlan encoded;
  encoded.set_kind(NameOf(rejected.kind));
  encoded.set_description(rejected.description);
  encoded.set_predicted_step_seconds(rejected.step_seconds);
  encoded.set_why_slower(rejected.why_slower);
  return encoded;
}

}  // namespace

void EncodeComparison(const Explanation& explanation, const std::string& text, v1::PlanReport& report) {
  report.clear_rejected();
  for (const Explanation::Rejected& rejected : explanation.rejected)
    *report.add_rejected() = EncodeRejected(rejected);
  report.set_explanation(text);
}

v1::PlanReport EncodePlanReport(const ChosenPlan& chosen, const Explanation& explanation,
                                const TrainingShape& shape, PlanOrigin origin, const std::string& text) {
  v1::PlanReport report;
  *report.mutable_plan() = EncodePlan(chosen.plan);
  report.set_description(Describe(chosen.plan));
  report.set_predicted_step_seconds(chosen.step_seconds);
  const double tokens = static_cast<double>(shape.sequence) * shape.global_batch_sequences;
  if (chosen.step_seconds > 0) report.set_predicted_tokens_per_second(tokens / chosen.step_seconds);
  report.set_pinned(origin == PlanOrigin::kPinned);
  if (origin == PlanOrigin::kPlanner) {
    report.set_lower_bound_seconds(chosen.lower_bound_seconds);
    report.set_proven_optimal(chosen.proven_optimal);
    report.set_simulated_plans(chosen.simulated_plans);
  }
  for (const Explanation::Device& device : explanation.devices) *report.add_devices() = EncodeDevice(device);
  report.set_bottleneck(explanation.bottleneck);
  report.set_bubble_share(explanation.bubble_share);
  EncodeComparison(explanation, text, report);
  return report;
}

}  // namespace medley

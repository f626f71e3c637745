#include "coordinator/wire/plan_report_codec.h"

#include <utility>

#include "coordinator/roofline/error_bar.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

v1::DeviceMemory EncodeMemory(const Explanation::Device& device) {
  const WindowMemory& windows = device.memory.windows;
  v1::DeviceMemory memory;
  memory.set_parameter_bytes((device.memory.parameters - windows.parameters).value);
  memory.set_gradient_bytes((device.memory.gradients - windows.gradients).value);
  memory.set_optimizer_bytes((device.memory.optimizer - windows.optimizer).value);
  memory.set_window_bytes(windows.total().value);
  memory.set_activation_bytes(device.memory.activations.value);
  memory.set_boundary_bytes(device.memory.boundaries.value);
  memory.set_sum_bytes(device.collectives.value);
  memory.set_copy_bytes(device.copies.value);
  memory.set_host_bytes(device.memory.host.value);
  memory.set_host_limit_bytes(device.host_memory.value);
  return memory;
}

v1::DeviceShare EncodeDevice(const Explanation::Device& device, const PlanReport& report) {
  v1::DeviceShare share;
  share.set_device(device.name);
  share.set_kind(device.kind);
  share.set_price_per_hour(device.price_per_hour);
  share.set_used(device.used);
  share.set_busy_share(device.busy_share);
  share.set_peak_memory_bytes(device.peak_memory.value);
  share.set_memory_limit_bytes(device.memory_limit.value);
  share.set_blocks(device.blocks);
  share.set_micro_batches(device.micro_batches);
  share.set_emulated(report.emulated.contains(device.name));
  share.set_computes_f32_instead(report.computes_f32_instead.contains(device.name));
  if (device.used) *share.mutable_memory() = EncodeMemory(device);
  return share;
}

v1::KindShare EncodeKind(const Explanation::Kind& kind) {
  v1::KindShare share;
  share.set_kind(kind.kind);
  share.set_devices(kind.devices);
  share.set_used(kind.used);
  share.set_work_share(kind.work_share);
  share.set_busy_share(kind.busy_share);
  share.set_memory_share(kind.memory_share);
  return share;
}

v1::ProfileUse EncodeUse(const ProfileUse& use) {
  v1::ProfileUse encoded;
  encoded.set_device_kind(use.device_kind);
  encoded.set_share(use.share);
  encoded.set_measured_at_seconds(use.measured_at_seconds);
  encoded.set_provenance(use.provenance);
  encoded.set_spread(use.spread);
  encoded.mutable_doubts()->Add(use.doubts.begin(), use.doubts.end());
  encoded.set_correction(use.correction);
  return encoded;
}

v1::RejectedPlan EncodeRejected(const Explanation::Rejected& rejected) {
  v1::RejectedPlan encoded;
  encoded.set_kind(NameOf(rejected.kind));
  encoded.set_description(rejected.description);
  encoded.set_predicted_step_seconds(rejected.step_seconds);
  encoded.set_why_slower(rejected.why_slower);
  return encoded;
}

constexpr double kHourSeconds = 3600, kMillion = 1e6;

v1::ParetoPlan EncodePareto(const ParetoPlan& plan, const PlannedJob& planned) {
  const PlanReport& report = planned.report;
  v1::ParetoPlan encoded;
  for (const auto& [kind, devices] : plan.devices_by_kind) {
    v1::KindCount& count = *encoded.add_devices();
    count.set_kind(kind);
    count.set_devices(devices);
  }
  encoded.set_predicted_step_seconds(plan.step_seconds);
  if (plan.step_seconds > 0)
    encoded.set_predicted_tokens_per_second(static_cast<double>(report.tokens_per_step) / plan.step_seconds);
  encoded.set_price_per_hour(plan.price_per_hour);
  encoded.set_job_seconds(plan.step_seconds * static_cast<double>(report.steps));
  encoded.set_job_cost(plan.price_per_hour * encoded.job_seconds() / kHourSeconds);
  encoded.set_bottleneck(plan.bottleneck);
  encoded.set_description(Describe(plan.plan));
  encoded.set_proven_optimal(plan.proven_optimal);
  encoded.set_chosen(plan.plan == planned.plan);
  return encoded;
}

void EncodePrice(const PlannedJob& planned, v1::PlanReport& encoded) {
  const PlanReport& report = planned.report;
  const double step_seconds = planned.prediction.step_seconds;
  if (report.origin == PlanOrigin::kPlanner)
    encoded.set_objective(report.objective == Objective::kCost ? v1::OBJECTIVE_COST
                                                               : v1::OBJECTIVE_THROUGHPUT);
  encoded.set_job_steps(report.steps);
  encoded.set_job_seconds(step_seconds * static_cast<double>(report.steps));
  encoded.set_price_per_hour(report.price_per_hour);
  encoded.set_job_cost(report.price_per_hour * encoded.job_seconds() / kHourSeconds);
  if (report.tokens_per_step > 0) {
    encoded.set_cost_per_million_tokens(report.price_per_hour * step_seconds / kHourSeconds * kMillion /
                                        static_cast<double>(report.tokens_per_step));
  }
  for (const ParetoPlan& plan : report.pareto) *encoded.add_pareto() = EncodePareto(plan, planned);
  encoded.set_pareto_complete(report.pareto_complete);
}

// Those of the errors that tell of the plan's steps.
std::vector<double> ErrorsFor(const PlanReport& report, const std::vector<v1::LiveError>& live_errors) {
  // Runs on real devices say nothing of data sheets, nor of emulated devices.
  if (report.basis != PredictionBasis::kMeasuredLayers || !EmulatedInUse(report).empty()) return {};
  std::set<std::string> kinds;
  for (const Explanation::Device& device : report.explanation.devices) {
    if (device.used) kinds.insert(device.kind);
  }
  std::vector<LiveError> live;
  for (const v1::LiveError& one : live_errors)
    live.push_back({{one.device_kinds().begin(), one.device_kinds().end()}, one.error()});
  return ErrorsThatTell(live, kinds);
}

v1::PredictionError EncodeError(const PlanReport& report, const std::vector<v1::LiveError>& live_errors) {
  std::vector<double> errors = ErrorsFor(report, live_errors);
  v1::PredictionError error;
  error.set_basis(EncodeBasis(report.basis));
  error.set_live_runs(static_cast<uint32_t>(errors.size()));
  const ErrorBar published = LearntErrorBar(report.basis);
  const ErrorBar bar = errors.empty() ? published : ErrorBarOf(std::move(errors), published);
  error.set_usual(bar.usual);
  error.set_wide(bar.wide);
  return error;
}

// What a comparison adds to.
void EncodeReasons(const Explanation& explanation, v1::PlanReport& report) {
  report.clear_rejected();
  for (const Explanation::Rejected& rejected : explanation.rejected)
    *report.add_rejected() = EncodeRejected(rejected);
  report.clear_helpful_changes();
  for (const Explanation::Help& help : explanation.helps) {
    v1::HelpfulChange& change = *report.add_helpful_changes();
    change.set_change(help.change);
    change.set_predicted_step_seconds(help.step_seconds);
    change.set_planned_anew(help.planned_anew);
  }
  report.set_explanation(FormatExplanation(explanation));
}

}  // namespace

v1::PlanReport EncodePlanReport(const PlannedJob& planned, const std::vector<v1::LiveError>& live_errors) {
  const PlanReport& report = planned.report;
  const double step_seconds = planned.prediction.step_seconds;
  v1::PlanReport encoded;
  *encoded.mutable_plan() = EncodePlan(planned.plan);
  encoded.set_description(Describe(planned.plan));
  encoded.set_predicted_step_seconds(step_seconds);
  *encoded.mutable_prediction_error() = EncodeError(report, live_errors);
  if (step_seconds > 0) {
    encoded.set_predicted_tokens_per_second(static_cast<double>(report.tokens_per_step) / step_seconds);
  }
  EncodePrice(planned, encoded);
  encoded.set_pinned(report.origin == PlanOrigin::kPinned);
  encoded.set_message_protection(EncodeMessageProtection(report.message_protection));
  if (report.origin == PlanOrigin::kPlanner) {
    encoded.set_lower_bound_seconds(report.lower_bound_seconds);
    encoded.set_bound_under_1f1b_alone(report.bound_under_1f1b_alone);
    encoded.set_proven_optimal(report.proven_optimal);
    encoded.set_simulated_plans(report.simulated_plans);
  }
  for (const Explanation::Device& device : report.explanation.devices)
    *encoded.add_devices() = EncodeDevice(device, report);
  for (const Explanation::Kind& kind : report.explanation.kinds) *encoded.add_kinds() = EncodeKind(kind);
  encoded.set_fitting(report.explanation.fitting);
  encoded.set_orders(report.explanation.orders);
  encoded.set_reductions(report.explanation.reductions);
  encoded.set_exchanges(report.explanation.exchanges);
  encoded.set_bottleneck(report.explanation.bottleneck);
  encoded.set_bubble_share(report.explanation.bubble_share);
  EncodeReasons(report.explanation, encoded);
  encoded.set_compared(report.compared);
  encoded.set_emulated(!EmulatedInUse(report).empty());
  for (const ProfileUse& use : report.profiles) *encoded.add_profiles() = EncodeUse(use);
  for (const LeftOutDevice& device : report.left_out) {
    v1::LeftOutDevice& left_out = *encoded.add_left_out();
    left_out.set_device(device.device);
    left_out.set_why(device.why);
  }
  return encoded;
}

v1::PlanReport WithComparison(v1::PlanReport report, const Explanation& explanation) {
  Explanation with_choice = explanation;
  with_choice.fitting = report.fitting();
  with_choice.orders = report.orders();
  EncodeReasons(with_choice, report);
  report.set_compared(true);
  return report;
}

}  // namespace medley

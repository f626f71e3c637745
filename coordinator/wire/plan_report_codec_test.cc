#include "coordinator/wire/plan_report_codec.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>

#include "coordinator/roofline/error_bar.h"

namespace medley {
namespace {

PlannedJob Planned() {
  PlannedJob planned;
  planned.plan.units = {{{"a/cpu0"}, {{0, 8}}}};
  planned.plan.routes = {{{0}, 4, 2}};
  planned.prediction.step_seconds = 0.5;
  PlanReport& report = planned.report;
  report.lower_bound_seconds = 0.4;
  report.bound_under_1f1b_alone = true;
  report.proven_optimal = true;
  report.simulated_plans = 17;
  report.tokens_per_step = 256 * 8;
  report.explanation.summary = "it is the only one";
  report.explanation.bottleneck = "a/cpu0";
  report.explanation.bubble_share = 0.1;
  report.explanation.orders = "an order of its own";
  report.explanation.reductions = "by a ring";
  report.explanation.exchanges = "by a library";
  report.explanation.devices = {{.name = "a/cpu0",
                                 .kind = "cpu",
                                 .used = true,
                                 .peak_memory = MiB(3),
                                 .memory = {.parameters = MiB(1), .host = MiB(5)},
                                 .collectives = KiB(1)},
                                {.name = "a/gpu0", .kind = "gpu"}};
  report.explanation.rejected = {{PlanKind::kPurePipeline, "x", 0.7, "slower"}};
  report.compared = true;
  return planned;
}

TEST_CASE("a report carries what the plan costs and what there is of time against price") {
  PlannedJob planned = Planned();
  PlanReport& report = planned.report;
  report.steps = 7200;
  report.price_per_hour = 4;
  report.objective = Objective::kCost;
  report.pareto = {{planned.plan, {{"cpu", 1}}, 0.5, 4, true, "a/cpu0"},
                   {{}, {{"gpu", 2}, {"x", 1}}, 1, 1, false, "b"}};
  report.pareto_complete = true;
  const v1::PlanReport encoded = EncodePlanReport(planned);
  CHECK(encoded.objective() == v1::OBJECTIVE_COST);
  CHECK(encoded.price_per_hour() == 4);
  CHECK(encoded.job_steps() == 7200);
  CHECK(encoded.job_seconds() == 3600);
  CHECK(encoded.job_cost() == 4);
  CHECK(encoded.cost_per_million_tokens() == Approx(4 / 3600.0 * 0.5 / (256 * 8) * 1e6));
  CHECK(encoded.pareto_complete());
  REQUIRE(encoded.pareto_size() == 2);
  CHECK(encoded.pareto(0).chosen());
  CHECK(encoded.pareto(0).proven_optimal());
  CHECK(encoded.pareto(0).description() == encoded.description());
  CHECK_FALSE(encoded.pareto(1).chosen());
  CHECK(encoded.pareto(1).devices(0).kind() == "gpu");
  CHECK(encoded.pareto(1).devices(0).devices() == 2);
  CHECK(encoded.pareto(1).predicted_tokens_per_second() == 2048);
  CHECK(encoded.pareto(1).job_seconds() == 7200);
  CHECK(encoded.pareto(1).job_cost() == 2);
  report.origin = PlanOrigin::kPinned;
  CHECK(EncodePlanReport(planned).objective() == v1::OBJECTIVE_UNSPECIFIED);
}

TEST_CASE("a report carries the plan, its prediction and its explanation") {
  PlannedJob planned = Planned();
  const v1::PlanReport report = EncodePlanReport(planned);
  CHECK(report.plan().units(0).devices(0) == "a/cpu0");
  CHECK(report.plan().units(0).activations() == v1::TENSOR_TYPE_F32);
  CHECK(report.description() == Describe(planned.plan));
  CHECK(report.predicted_tokens_per_second() == Approx(4096));
  CHECK(report.lower_bound_seconds() == 0.4);
  CHECK(report.bound_under_1f1b_alone());
  CHECK(report.proven_optimal());
  CHECK(report.simulated_plans() == 17);
  CHECK(report.bottleneck() == "a/cpu0");
  CHECK(report.bubble_share() == 0.1);
  CHECK(report.devices(0).peak_memory_bytes() == 3u << 20);
  CHECK(report.devices(0).memory().parameter_bytes() == 1u << 20);
  CHECK(report.devices(0).memory().sum_bytes() == 1u << 10);
  CHECK(report.devices(0).memory().host_bytes() == 5u << 20);
  CHECK_FALSE(report.devices(1).has_memory());  // it is not used
  CHECK(report.reductions() == "by a ring");
  CHECK(report.exchanges() == "by a library");
  CHECK(report.rejected(0).kind() == "pure pipeline");
  CHECK(report.compared());
  CHECK(report.orders() == "an order of its own");
  CHECK_THAT(report.explanation(),
             Catch::Contains("it is the only one") && Catch::Contains("Order       an order of its own\n"));

  planned.report.origin = PlanOrigin::kPinned;
  const v1::PlanReport pinned = EncodePlanReport(planned);
  CHECK(pinned.pinned());
  CHECK_FALSE(pinned.proven_optimal());
  CHECK(pinned.lower_bound_seconds() == 0);
  CHECK(pinned.predicted_step_seconds() == 0.5);
}

TEST_CASE("what a report says that memory is made of is all of the peak, and nothing twice") {
  PlannedJob planned = Planned();
  Explanation::Device& device = planned.report.explanation.devices[0];
  device.memory = {.parameters = MiB(20),
                   .gradients = MiB(30),
                   .optimizer = MiB(50),
                   .activations = MiB(7),
                   .boundaries = MiB(3),
                   .workspace = MiB(5),
                   .logits = MiB(2),
                   .conversions = MiB(1),
                   .ahead = MiB(20),
                   .windows = {.parameters = MiB(4), .gradients = MiB(6), .optimizer = MiB(8)},
                   .host = MiB(300)};
  const Bytes held = MiB(11);  // by the ops, and copies
  device.peak_memory = device.memory.total() + held;
  device.host_memory = MiB(900);
  device.copies = MiB(9);
  const v1::DeviceShare share = EncodePlanReport(planned).devices(0);
  const v1::DeviceMemory& memory = share.memory();
  CHECK(memory.parameter_bytes() == 16u << 20);
  CHECK(memory.gradient_bytes() == 24u << 20);
  CHECK(memory.optimizer_bytes() == 42u << 20);
  CHECK(memory.window_bytes() == 18u << 20);
  CHECK(memory.host_bytes() == 300u << 20);
  CHECK(memory.copy_bytes() == 9u << 20);
  CHECK(memory.host_limit_bytes() == 900u << 20);
  const uint64_t parts = memory.parameter_bytes() + memory.gradient_bytes() + memory.optimizer_bytes() +
                         memory.activation_bytes() + memory.boundary_bytes() + memory.sum_bytes() +
                         memory.window_bytes();
  const Bytes scratch = MiB(5 + 2 + 1) - device.collectives;
  CHECK(share.peak_memory_bytes() - parts == static_cast<uint64_t>((scratch + held).value));
}

TEST_CASE("a report says which devices compute nothing, or in f32, and what its profiles are from") {
  PlannedJob planned = Planned();
  PlanReport& report = planned.report;
  report.emulated = {"a/gpu0"};
  report.computes_f32_instead = {"a/cpu0"};
  report.profiles = {{"cpu", "3 of 4 heads", 7, "measured", 0.25, {"a layer is too slow"}, "corrected"}};
  report.left_out = {{"b/cpu0", "blocks 0-3 need 4 GiB"}};
  v1::PlanReport encoded = EncodePlanReport(planned);
  CHECK_FALSE(encoded.emulated());  // it is not used
  CHECK_FALSE(encoded.devices(0).emulated());
  CHECK(encoded.devices(1).emulated());
  CHECK(encoded.devices(0).computes_f32_instead());
  REQUIRE(encoded.profiles_size() == 1);
  CHECK(encoded.profiles(0).device_kind() == "cpu");
  CHECK(encoded.profiles(0).measured_at_seconds() == 7);
  CHECK(encoded.profiles(0).provenance() == "measured");
  CHECK(encoded.profiles(0).share() == "3 of 4 heads");
  CHECK(encoded.profiles(0).spread() == 0.25);
  CHECK(encoded.profiles(0).doubts(0) == "a layer is too slow");
  CHECK(encoded.profiles(0).correction() == "corrected");
  REQUIRE(encoded.left_out_size() == 1);
  CHECK(encoded.left_out(0).device() == "b/cpu0");
  CHECK(encoded.left_out(0).why() == "blocks 0-3 need 4 GiB");
  report.explanation.devices[1].used = true;
  CHECK(EncodePlanReport(planned).emulated());
}

TEST_CASE("a plan of measured devices is as sure as runs were, any other as published measurements") {
  PlannedJob planned = Planned();
  v1::LiveError run;
  run.add_device_kinds("cpu");
  run.set_error(-0.02);
  const std::vector<v1::LiveError> runs(12, run);
  const v1::PredictionError published = EncodePlanReport(planned).prediction_error();
  CHECK(published.basis() == v1::PREDICTION_BASIS_MEASURED_DEVICES);
  CHECK(published.live_runs() == 0);
  CHECK(published.usual() == LearntErrorBar(PredictionBasis::kMeasuredLayers).usual);
  CHECK(published.wide() == LearntErrorBar(PredictionBasis::kMeasuredLayers).wide);
  const v1::PredictionError learnt = EncodePlanReport(planned, runs).prediction_error();
  CHECK(learnt.basis() == v1::PREDICTION_BASIS_MEASURED_DEVICES);
  CHECK(learnt.live_runs() == 12);
  CHECK(learnt.usual() == Approx(0.02));
  CHECK(learnt.wide() == Approx(0.02));

  planned.report.explanation.devices[0].kind = "other";
  CHECK(EncodePlanReport(planned, runs).prediction_error().live_runs() == 0);
  CHECK(EncodePlanReport(planned, runs).prediction_error().usual() == published.usual());
  planned.report.explanation.devices[0].kind = "cpu";

  planned.report.emulated = {"a/gpu0"};  // which is not used
  CHECK(EncodePlanReport(planned, runs).prediction_error().live_runs() == 12);
  planned.report.emulated = {"a/cpu0"};
  CHECK(EncodePlanReport(planned, runs).prediction_error().usual() == published.usual());
  CHECK(EncodePlanReport(planned, runs).prediction_error().live_runs() == 0);
  planned.report.emulated.clear();
  planned.report.basis = PredictionBasis::kOtherKinds;
  const v1::PredictionError sheets = EncodePlanReport(planned, runs).prediction_error();
  CHECK(sheets.basis() == v1::PREDICTION_BASIS_DATA_SHEETS_OF_OTHER_KINDS);
  CHECK(sheets.wide() == LearntErrorBar(PredictionBasis::kOtherKinds).wide);
  CHECK(sheets.live_runs() == 0);
}

TEST_CASE("a comparison that comes later gives the report that it would have been part of") {
  PlannedJob planned = Planned();
  const v1::PlanReport at_once = EncodePlanReport(planned);
  Explanation compared = planned.report.explanation;
  compared.orders.clear();  // it is of the plan alone
  planned.report.explanation.rejected.clear();
  planned.report.compared = false;
  const v1::PlanReport first = EncodePlanReport(planned);
  CHECK(first.rejected_size() == 0);
  CHECK_FALSE(first.compared());
  CHECK(google::protobuf::util::MessageDifferencer::Equals(WithComparison(first, compared), at_once));
}

}  // namespace
}  // namespace medley

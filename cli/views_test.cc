#include "cli/views.h"

#include <catch2/catch.hpp>

#include "cli/text_table.h"
#include "nlohmann/json.hpp"

namespace medley {
namespace {

v1::PlanReport Report() {
  v1::PlanReport report;
  report.set_description("1 route");
  report.set_predicted_step_seconds(0.5);
  report.set_predicted_tokens_per_second(8192);
  report.set_lower_bound_seconds(0.4);
  v1::DeviceShare& device = *report.add_devices();
  device.set_device("a/cpu0");
  device.set_kind("cpu avx2");
  device.set_used(true);
  device.set_busy_share(0.93);
  device.set_peak_memory_bytes(100 << 20);
  device.set_memory_limit_bytes(512 << 20);
  device.set_blocks(8);
  device.set_micro_batches(4);
  return report;
}

TEST_CASE("a plan says how good it is") {
  v1::PlanReport report = Report();
  CHECK(FormatPlan(report, PlanDetail::kSummary) ==
        "1 route\n"
        "predicted step 500.0 ms, 8.2k tokens/s; at most 25.0 % slower than the best possible\n"
        "\n"
        "DEVICE  BLOCKS  MICRO-BATCHES  BUSY     MEMORY      LIMIT  KIND\n"
        "a/cpu0       8              4  93 %  100.0 MiB  512.0 MiB  cpu avx2\n");
  report.set_proven_optimal(true);
  CHECK(FormatPlan(report, PlanDetail::kSummary).find("; proven optimal\n") != std::string::npos);
  report.set_orders("none pays");
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::Contains("; proven optimal among named schedules\n"));
  report.set_proven_optimal(false);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::Contains("25.0 % slower than the best possible with a named schedule\n"));
  report.set_bound_under_1f1b_alone(true);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::Contains("25.0 % slower than the best possible under 1f1b\n"));
  report.set_bound_under_1f1b_alone(false);
  report.mutable_plan()->set_schedule(v1::SCHEDULE_LISTED);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::Contains("25.0 % slower than the best possible\n"));
  report.mutable_plan()->clear_schedule();
  report.set_pinned(true);
  CHECK(FormatPlan(report, PlanDetail::kSummary).find("; named by the job\n") != std::string::npos);
  report.set_explanation("why\nBottleneck  a device\n  of many\n\nits own table\n");
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation),
             Catch::Contains("\n\nwhy\nBottleneck  a device of many\n\nDEVICE  BLOCKS") &&
                 !Catch::Contains("its own table"));
}

TEST_CASE("why a plan was taken comes with what the memory of its devices is made of") {
  v1::PlanReport report = Report();
  report.set_explanation("why\n");
  for (const char* kind : {"cpu avx2", "cpu sse41"}) report.add_kinds()->set_kind(kind);
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation),
             Catch::Contains("cpu avx2\n\nKIND ") && !Catch::Contains("WEIGHTS"));
  v1::DeviceMemory& memory = *report.mutable_devices(0)->mutable_memory();
  memory.set_parameter_bytes(20 << 20);
  memory.set_gradient_bytes(20 << 20);
  memory.set_optimizer_bytes(40 << 20);
  memory.set_activation_bytes(10 << 20);
  memory.set_window_bytes(4 << 20);
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation),
             Catch::Contains(
                 "cpu avx2\n\n"
                 "MEMORY IN MiB  WEIGHTS  GRADIENTS  OPTIMIZER   KEPT  WINDOWS  WORKSPACE   TOTAL   LIMIT\n"
                 "a/cpu0           20.00      20.00      40.00  10.00     4.00       6.00  100.00  "
                 "512.00\n\nKIND "));
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), !Catch::Contains("WEIGHTS"));
}

TEST_CASE("a plan says how far off its prediction may be, and what tells so") {
  v1::Job job;
  v1::PlanReport& report = *job.mutable_plan();
  report = Report();
  CHECK(ErrorOf(report).empty());
  v1::PredictionError& error = *report.mutable_prediction_error();
  error.set_usual(0.041);
  error.set_wide(0.094);
  error.set_basis(v1::PREDICTION_BASIS_MEASURED_DEVICES);
  CHECK(ErrorOf(report) == "within 4 % two times of three, 9 % nine of ten (published measurements)");
  error.set_live_runs(12);
  const std::string learnt = "within 4 % two times of three, 9 % nine of ten (learnt from 12 runs here)";
  CHECK(ErrorOf(report) == learnt);
  for (const PlanDetail detail : {PlanDetail::kSummary, PlanDetail::kExplanation})
    CHECK_THAT(FormatPlan(report, detail), Catch::Contains("the best possible\n" + learnt + "\n\n"));
  CHECK_THAT(FormatJob(job), Catch::Contains("predicted step  500.0 ms, " + learnt + "\n"));
  const nlohmann::json json = nlohmann::json::parse(JsonLine(report))["prediction_error"];
  CHECK(json["usual"] == 0.041);
  CHECK(json["wide"] == 0.094);
  CHECK(json["basis"] == "measured_devices");
  CHECK(json["live_runs"] == 12);

  error.set_live_runs(1);
  error.set_usual(0.001);
  CHECK_THAT(ErrorOf(report),
             Catch::Contains("within 1 % two") && Catch::Contains("(learnt from 1 run here)"));
  error.set_live_runs(0);
  error.set_basis(v1::PREDICTION_BASIS_DATA_SHEETS);
  CHECK_THAT(ErrorOf(report), Catch::EndsWith("(data sheets and published measurements)"));
}

TEST_CASE("a plan says what it costs, and what there is of time against price") {
  v1::PlanReport report = Report();
  report.set_price_per_hour(7.2);
  report.set_cost_per_million_tokens(0.0375);
  report.set_job_steps(1000);
  report.set_job_seconds(500);
  report.set_job_cost(1);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::Contains(
                 "\n7.20 an hour, 0.0375 a million tokens, 1.00 for the job's 1000 steps (8 min 20 s); 1 "
                 "device in use has no price\n\nDEVICE"));
  report.mutable_devices(0)->set_price_per_hour(7.2);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), Catch::Contains("(8 min 20 s)\n\nDEVICE"));
  report.set_objective(v1::OBJECTIVE_COST);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), Catch::Contains("; the cheapest found\n"));
  report.set_proven_optimal(true);
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), Catch::Contains("; proven to cost least\n"));
  for (const double price : {7.2, 0.9}) {
    v1::ParetoPlan& plan = *report.add_pareto();
    v1::KindCount& count = *plan.add_devices();
    count.set_kind("cpu avx2");
    count.set_devices(price > 1 ? 8 : 1);
    plan.set_predicted_step_seconds(3.6 / price);
    plan.set_predicted_tokens_per_second(1000 * price);
    plan.set_price_per_hour(price);
    plan.set_job_seconds(3600 / price);
    plan.set_job_cost(1);
    plan.set_bottleneck("device: a/cpu0");
    plan.set_chosen(price < 1);
  }
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             Catch::EndsWith(
                 "\n\n"
                 "DEVICES       CHOSEN      STEP  TOKENS/S  AN HOUR   JOB TAKES  JOB COSTS  BOUND BY\n"
                 "cpu avx2 x 8          500.0 ms      7.2k     7.20  8 min 20 s       1.00  device: a/cpu0\n"
                 "cpu avx2 x 1  yes       4.00 s       900     0.90  1 h 06 min       1.00  device: a/cpu0\n"
                 "there may be others, faster or cheaper\n"));
  report.set_pareto_complete(true);
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation),
             Catch::Contains("no other plan is both faster and as cheap as one of these\n"));
}

TEST_CASE("of many devices those that do alike are one line, and many routes are told by classes") {
  v1::PlanReport report = Report();
  for (int d = 1; d < 40; ++d) {
    v1::DeviceShare& device = *report.add_devices();
    device = report.devices(0);
    device.set_device("a/cpu" + std::to_string(d));
    if (d >= 30) device.set_blocks(9);
  }
  report.set_fitting("17 x [cpu]");
  CHECK(FormatPlan(report, PlanDetail::kSummary) ==
        "1 route\n"
        "predicted step 500.0 ms, 8.2k tokens/s; at most 25.0 % slower than the best possible\n"
        "\n"
        "DEVICE              BLOCKS  MICRO-BATCHES  BUSY     MEMORY      LIMIT  KIND\n"
        "a/cpu0 and 29 more       8              4  93 %  100.0 MiB  512.0 MiB  cpu avx2\n"
        "a/cpu30 and 9 more       9              4  93 %  100.0 MiB  512.0 MiB  cpu avx2\n");
  for (int r = 0; r < 17; ++r) report.mutable_plan()->add_routes();
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), Catch::StartsWith("17 x [cpu]\npredicted"));
}

TEST_CASE("nodes are listed device by device with their jobs") {
  v1::ListNodesResponse nodes;
  v1::Node& node = *nodes.add_nodes();
  node.set_name("a");
  node.set_alive(true);
  v1::Device& device = *node.add_devices();
  device.set_name("cpu0");
  device.set_backend("cpu");
  device.add_cores(0);
  device.add_cores(1);
  device.set_memory_bytes(1 << 30);
  (*node.mutable_jobs())["cpu0"] = "bible-1";
  nodes.add_nodes()->set_name("gone");
  const std::string text = FormatNodes(nodes);
  CHECK(text.find("a/cpu0  cpu               0 1    1.0 GiB  alive  bible-1\n") != std::string::npos);
  CHECK(text.find("gone/-") != std::string::npos);
  CHECK_THAT(text, !Catch::Contains("SITE"));
  nodes.mutable_nodes(0)->set_site("north");
  CHECK_THAT(FormatNodes(nodes), Catch::Contains("SITE") && Catch::Contains("  alive  north  bible-1\n"));
  CHECK_THAT(FormatNodes(nodes), !Catch::Contains("RACK"));
  nodes.mutable_nodes(0)->set_rack("r1");
  CHECK_THAT(FormatNodes(nodes),
             Catch::Contains("RACK") && Catch::Contains("  alive  north  r1    bible-1\n"));
}

TEST_CASE("validations stand beside the step that they followed") {
  v1::ListStepsResponse steps;
  for (uint32_t i = 1; i <= 3; ++i) steps.add_steps()->set_step(i);
  v1::ValidationMetrics& validation = *steps.add_validations();
  validation.set_step(2);
  validation.set_loss(1.5);
  const nlohmann::json json = nlohmann::json::parse(JsonLine(steps));
  CHECK(json["steps"].size() == 3);
  CHECK(json["steps"][0]["gradient_norm"] == 0);
  const std::string text = FormatSteps(steps);
  CHECK(text.find("1.500000") != std::string::npos);
  CHECK(text.find("\n   2  ") < text.find("1.500000"));
  CHECK(text.find("1.500000") < text.find("\n   3  "));
}

TEST_CASE("what emulated devices computed is nowhere shown as a loss") {
  v1::Job job;
  job.set_id("rehearsal-1");
  job.mutable_spec()->set_steps(9);
  *job.mutable_plan() = Report();
  job.mutable_plan()->set_emulated(true);
  job.mutable_plan()->mutable_devices(0)->set_emulated(true);
  v1::StepMetrics& step = *job.mutable_last_step();
  step.set_step(3);
  step.set_emulated(true);
  job.mutable_last_validation()->set_step(3);
  const std::string text = FormatJob(job);
  CHECK_THAT(text, Catch::Contains("EMULATED        a/cpu0 compute nothing") &&
                       Catch::Contains("loss            emulated"));
  CHECK_THAT(text, !Catch::Contains("0.0000") && !Catch::Contains("validation"));
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = job;
  CHECK_THAT(FormatJobs(jobs), Catch::Contains("emulated") && !Catch::Contains("0.0000"));
  v1::ListStepsResponse steps;
  *steps.add_steps() = step;
  *steps.add_validations() = job.last_validation();
  CHECK_THAT(FormatSteps(steps), Catch::Contains("emulated") && !Catch::Contains("0.000000"));
  CHECK_THAT(FormatPlan(job.plan(), PlanDetail::kSummary),
             Catch::Contains("\nEMULATED: a/cpu0 compute nothing"));
  CHECK_THAT(FormatPlan(Report(), PlanDetail::kSummary), !Catch::Contains("EMULATED"));
}

TEST_CASE("what was measured says with what, a line a device kind") {
  v1::ListNodesResponse nodes;
  for (const double at : {86400.0, 2 * 86400.0, 3600.0}) {
    v1::DeviceProfile& profile = *nodes.add_profiles();
    profile.set_device_kind("cpu-avx2 x1");
    profile.set_measured_at_seconds(at);
    profile.set_provenance(at > 1e5 ? "a/cpu0, oneDNN 2.6.3" : "older");
  }
  const std::string text = FormatNodes(nodes);
  CHECK_THAT(
      text, Catch::Contains("cpu-avx2 x1") && Catch::Contains("1970-01-03 00:00:00  a/cpu0, oneDNN 2.6.3\n"));
  CHECK_THAT(text, Catch::Contains("  3  ") && !Catch::Contains("older"));
  v1::PlanReport report = Report();
  report.set_explanation("why\n");
  v1::ProfileUse& use = *report.add_profiles();
  use.set_device_kind("cpu avx2");
  use.set_provenance("a/cpu0, oneDNN 2.6.3");
  CHECK_THAT(
      FormatPlan(report, PlanDetail::kExplanation),
      Catch::Contains("why\n\nDEVICE") && Catch::Contains("\n\nKIND      MEASURED  SPREAD  ON AND WITH\n"));
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), !Catch::Contains("oneDNN"));
}

TEST_CASE(
    "a plan says which devices it leaves out, which round otherwise than the job says, and what is "
    "doubtful") {
  v1::PlanReport report = Report();
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary),
             !Catch::Contains("f32") && !Catch::Contains("left out"));
  report.mutable_devices(0)->set_computes_f32_instead(true);
  v1::LeftOutDevice& left_out = *report.add_left_out();
  left_out.set_device("b/cpu0");
  left_out.set_why("blocks 0-3 need 4 GiB");
  v1::ProfileUse& use = *report.add_profiles();
  use.set_device_kind("cpu avx2");
  use.set_spread(0.034);
  use.add_doubts("the time falls with the micro-batch");
  use.set_correction("1.1 by 40 steps");
  for (const PlanDetail detail : {PlanDetail::kSummary, PlanDetail::kExplanation}) {
    CHECK_THAT(FormatPlan(report, detail),
               Catch::Contains("\na/cpu0 computes this job in f32\n") &&
                   Catch::Contains("\nleft out: b/cpu0: blocks 0-3 need 4 GiB\n"));
  }
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation),
             Catch::Contains("3.4 %") && Catch::Contains("1.1 by 40 steps") &&
                 Catch::Contains("\nDOUBTFUL: cpu avx2: the time falls with the micro-batch\n"));
  v1::Job job;
  *job.mutable_plan() = report;
  CHECK_THAT(FormatJob(job), Catch::Contains("a/cpu0 computes this job in f32\n"));
}

TEST_CASE("a job shows its attempt, its restart budget, that it is held and why it has no checkpoint") {
  v1::Job job;
  job.set_id("bible-1");
  job.set_state(v1::JOB_STATE_RUNNING);
  CHECK_THAT(FormatJob(job), !Catch::Contains("attempt") && !Catch::Contains("restarts"));
  job.set_attempt(4);
  job.set_restarts(3);
  job.set_restarts_without_progress(1);
  job.set_checkpoint_problem("No space left on device");
  const std::string text = FormatJob(job);
  CHECK_THAT(text,
             Catch::Contains("attempt        4\n") &&
                 Catch::Contains("restarts       3, of them 1 of 3 allowed since the last checkpoint\n") &&
                 Catch::Contains("NO CHECKPOINT  No space left on device\n"));
  job.mutable_spec()->set_max_restarts(9);
  CHECK_THAT(FormatJob(job), Catch::Contains("1 of 9 allowed"));
  job.set_held(true);
  CHECK_THAT(FormatJob(job), Catch::Contains("held, until `medley release bible-1`\n"));
  job.set_state(v1::JOB_STATE_CANCELLED);
  job.set_state_reason("cancelled by the user");
  CHECK_THAT(FormatJob(job), Catch::Contains("cancelled by the user\n") && !Catch::Contains("held"));
}

TEST_CASE("a job that runs says how fast it is and what is left of it, one that has ended how fast it was") {
  v1::Job job;
  job.set_state(v1::JOB_STATE_RUNNING);
  job.mutable_spec()->set_steps(1000);
  CHECK_THAT(FormatJob(job), !Catch::Contains("tokens/s") && !Catch::Contains("time left"));
  job.mutable_last_step()->set_step(100);
  job.mutable_last_step()->set_tokens(2048);
  job.set_measured_step_seconds(0.5);
  CHECK_THAT(FormatJob(job),
             Catch::Contains("\ntokens/s       4.1k\n") && Catch::Contains("\ntime left      7 min 30 s\n"));
  CHECK_THAT(FormatJob(job), !Catch::Contains("FLOP/s"));  // the model is not known
  job.set_parameters(124'000'000);
  CHECK_THAT(FormatJob(job), Catch::Contains("\nmodel FLOP/s   3.0 TFLOP/s\n"));
  CHECK_THAT(
      FormatJob(job, 0, 7e12),
      Catch::Contains("\nmodel FLOP/s   3.0 TFLOP/s, 44 % of what its devices make of large products\n"));
  job.set_state(v1::JOB_STATE_DONE);
  CHECK_THAT(FormatJob(job), Catch::Contains("tokens/s") && !Catch::Contains("time left"));
  job.mutable_plan()->set_emulated(true);
  CHECK_THAT(FormatJob(job), !Catch::Contains("FLOP/s"));
}

TEST_CASE("a step that updated nothing has no loss") {
  v1::ListStepsResponse steps;
  v1::StepMetrics& step = *steps.add_steps();
  step.set_step(7);
  step.set_skipped(true);
  step.set_loss(1e30);
  CHECK_THAT(FormatSteps(steps), Catch::Contains("skipped") && !Catch::Contains("1000000"));
}

TEST_CASE("steps that come later stand under the same heading") {
  v1::ListStepsResponse steps;
  v1::StepMetrics& step = *steps.add_steps();
  step.set_step(7);
  step.set_loss(2.5);
  step.set_attempt(1);
  CHECK(FormatMoreSteps(steps) ==
        "   7  2.500000         0.0000      0.000e+00   0.0000         -        1           -\n");
}

// The widest line's columns.
size_t WidthOf(const std::string& text) {
  size_t widest = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    widest = std::max(widest, DisplayWidth(text.substr(begin, end - begin)));
  }
  return widest;
}

TEST_CASE("on a terminal of 80 columns nothing wraps and nothing is lost") {
  v1::ListJobsResponse jobs;
  v1::Job& job = *jobs.add_jobs();
  job.set_id("llama-bible-12");
  job.set_state(v1::JOB_STATE_RECOVERING);
  job.set_submitted_at_seconds(1.8e9);
  job.set_state_reason(
      "waits for laptop-avx512/cpu0 (lost) and for more than that, all of which takes a while");
  for (const char* device : {"laptop-avx512/cpu0", "laptop-avx2/cpu0", "laptop-sse41/cpu0"}) {
    job.mutable_plan()->mutable_plan()->add_units()->add_devices(device);
  }
  CHECK(WidthOf(FormatJobs(jobs)) > 80);
  const std::string text = FormatJobs(jobs, 80);
  CHECK(WidthOf(text) <= 80);
  CHECK_THAT(text,
             Catch::Contains("\n    devices: laptop-avx512/cpu0, laptop-avx2/cpu0, laptop-sse41/cpu0\n") &&
                 Catch::Contains("\n    why: waits for"));
  CHECK(WidthOf(FormatJob(job, 80)) <= 80);

  v1::PlanReport report = Report();
  report.mutable_devices(0)->set_device("laptop-avx512/cpu0");
  report.mutable_devices(0)->set_kind("cpu avx512 x1 Intel(R) Xeon(R) Processor @ 2.50GHz");
  v1::DeviceMemory& memory = *report.mutable_devices(0)->mutable_memory();
  memory.set_parameter_bytes(20 << 20);
  memory.set_gradient_bytes(20 << 20);
  memory.set_optimizer_bytes(40 << 20);
  memory.set_activation_bytes(10 << 20);
  report.set_explanation(std::string(60, 'x') + " " + std::string(45, 'y') + "\n\ntable");
  v1::RejectedPlan& rejected = *report.add_rejected();
  rejected.set_kind("pure data parallel");
  rejected.set_why_slower(
      "laptop-sse41/cpu0 would be busy 98 % of 12.3 s while laptop-avx512/cpu0 idles 70 %");
  rejected.set_description("[laptop-avx512/cpu0] x 3 | [laptop-avx2/cpu0] x 3 | [laptop-sse41/cpu0] x 2");
  for (const PlanDetail detail : {PlanDetail::kSummary, PlanDetail::kExplanation}) {
    CHECK(WidthOf(FormatPlan(report, detail)) > 80);
    const std::string plan = FormatPlan(report, detail, 80);
    CAPTURE(plan);
    CHECK(WidthOf(plan) <= 80);
    CHECK_THAT(plan, Catch::Contains("Intel(R) Xeon(R)"));
  }
}

TEST_CASE("log lines cannot move the cursor") {
  v1::ListLogsResponse logs;
  v1::LogLine& line = *logs.add_lines();
  line.set_at_seconds(86400);
  line.set_source("a/cpu0");
  line.set_text("\x1b[2Jgone\r");
  CHECK(FormatLogs(logs) == "1970-01-02 00:00:00  a/cpu0  \\x1b[2Jgone\\x0d\n");
}

TEST_CASE("JSON is one line with the protos' names and empty values") {
  v1::Job job;
  job.set_id("a");
  const std::string text = JsonLine(job);
  CHECK(text.find('\n') == text.size() - 1);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["measured_step_seconds"] == 0);
  CHECK(json["state"] == "unspecified");
}

}  // namespace
}  // namespace medley

#include "coordinator/cli/views.h"

#include <catch2/catch.hpp>

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
  report.set_pinned(true);
  CHECK(FormatPlan(report, PlanDetail::kSummary).find("; named by the job\n") != std::string::npos);
  report.set_explanation("why");
  CHECK(FormatPlan(report, PlanDetail::kExplanation).find("\n\nwhy\n") != std::string::npos);
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
  CHECK_THAT(text, Catch::Contains("EMULATED        a/cpu0 compute nothing") && Catch::Contains("loss            emulated"));
  CHECK_THAT(text, !Catch::Contains("0.0000") && !Catch::Contains("validation"));
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = job;
  CHECK_THAT(FormatJobs(jobs), Catch::Contains("emulated") && !Catch::Contains("0.0000"));
  v1::ListStepsResponse steps;
  *steps.add_steps() = step;
  *steps.add_validations() = job.last_validation();
  CHECK_THAT(FormatSteps(steps), Catch::Contains("emulated") && !Catch::Contains("0.000000"));
  CHECK_THAT(FormatPlan(job.plan(), PlanDetail::kSummary), Catch::Contains("\nEMULATED: a/cpu0 compute nothing"));
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
  CHECK_THAT(text, Catch::Contains("cpu-avx2 x1") && Catch::Contains("1970-01-03 00:00:00  a/cpu0, oneDNN 2.6.3\n"));
  CHECK_THAT(text, Catch::Contains("  3  ") && !Catch::Contains("older"));
  v1::PlanReport report = Report();
  report.set_explanation("why\n");
  v1::ProfileUse& use = *report.add_profiles();
  use.set_device_kind("cpu avx2");
  use.set_provenance("a/cpu0, oneDNN 2.6.3");
  CHECK_THAT(FormatPlan(report, PlanDetail::kExplanation), Catch::Contains("why\n\nKIND      MEASURED  ON AND WITH\n"));
  CHECK_THAT(FormatPlan(report, PlanDetail::kSummary), !Catch::Contains("oneDNN"));
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
  CHECK(json["state"] == "JOB_STATE_UNSPECIFIED");
}

}  // namespace
}  // namespace medley

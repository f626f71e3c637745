#include "coordinator/web/coordinator_metrics.h"

#include <catch2/catch.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace medley {
namespace {

// The figure of a line that begins so; a test that has none fails.
double Value(const std::string& text, const std::string& line) {
  double value = 0;
  const size_t at = text.find("\n" + line + " ");
  INFO(line << " in\n" << text);
  REQUIRE(at != std::string::npos);
  REQUIRE(absl::SimpleAtod(text.substr(at + line.size() + 2, text.find('\n', at + 1) - at - line.size() - 2),
                           &value));
  return value;
}

v1::Job RunningJob() {
  v1::Job job;
  job.set_id("gpt-1");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_submitted_at_seconds(1000);
  job.set_state_since_seconds(1070);
  for (const auto& [state, seconds] : {std::pair(v1::JOB_STATE_QUEUED, 10.0),
                                       {v1::JOB_STATE_LAUNCHING, 20.0},
                                       {v1::JOB_STATE_RUNNING, 40.0}}) {
    v1::StateTime& past = *job.add_past();
    past.set_state(state);
    past.set_seconds(seconds);
  }
  job.set_step_seconds_total(60);
  job.set_repeated_step_seconds(15);
  job.set_tokens_total(5000);
  job.set_parameters(100);
  job.set_measured_step_seconds(2);
  job.mutable_plan()->set_predicted_step_seconds(1);
  job.mutable_last_step()->set_tokens(64);
  job.mutable_last_step()->set_loss(3.5);
  return job;
}

TEST_CASE("where a job's time went adds up to the time since its submission") {
  OpenMetrics metrics;
  AddJobFigures({RunningJob()}, 1100, metrics);
  const std::string text = metrics.Text();
  const auto part = [&](const std::string& name) {
    return Value(text, "medley_job_seconds_total{job=\"gpt-1\",part=\"" + name + "\"}");
  };
  CHECK(part("queued") == 10);
  CHECK(part("launching") == 20);
  CHECK(part("steps") == 45);
  CHECK(part("repeated_steps") == 15);
  CHECK(part("between_steps") == 10);
  CHECK(Value(text, "medley_jobs{state=\"running\"}") == 1);
  CHECK(Value(text, "medley_jobs{state=\"failed\"}") == 0);
}

TEST_CASE("what is known of a job has its figure, and what is not has none") {
  OpenMetrics metrics;
  v1::Job fresh;
  fresh.set_id("new-2");
  fresh.set_state(v1::JOB_STATE_QUEUED);
  AddJobFigures({RunningJob(), fresh}, 1100, metrics);
  const std::string text = metrics.Text();
  CHECK(Value(text, "medley_job_tokens_per_second{job=\"gpt-1\"}") == 32);
  CHECK(Value(text, "medley_job_flops_per_second{job=\"gpt-1\"}") == 6 * 100 * 32);
  CHECK(Value(text, "medley_job_predicted_over_measured_ratio{job=\"gpt-1\"}") == 0.5);
  CHECK(Value(text, "medley_job_loss{job=\"gpt-1\"}") == 3.5);
  CHECK(Value(text, "medley_job_tokens_total{job=\"gpt-1\"}") == 5000);
  CHECK(text.find("medley_job_loss{job=\"new-2\"}") == std::string::npos);
}

TEST_CASE("the labels of jobs that have ended are bounded, their count is not") {
  std::vector<v1::Job> jobs(50, RunningJob());
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].set_id("job-" + std::to_string(i));
    jobs[i].set_state(i == 49 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_DONE);
  }
  OpenMetrics metrics;
  AddJobFigures(jobs, 1100, metrics);
  const std::string text = metrics.Text();
  CHECK(Value(text, "medley_jobs{state=\"done\"}") == 49);
  CHECK(text.find("job-19\"") != std::string::npos);
  CHECK(text.find("job-20\"") == std::string::npos);
  CHECK(text.find("job-49\"") != std::string::npos);
}

TEST_CASE("devices are counted by kind and use, and traced steps by device and link") {
  v1::Node node;
  node.set_name("a");
  node.set_alive(true);
  for (const char* name : {"cpu0", "cpu1"}) {
    v1::Device& device = *node.add_devices();
    device.set_name(name);
    device.set_kind("k");
  }
  (*node.mutable_jobs())["cpu1"] = "gpt-1";
  v1::Trace trace;
  trace.set_job_id("gpt-1");
  for (const char* device : {"a/cpu0", "a/cpu1"}) {
    v1::TraceLane& lane = *trace.add_lanes();
    lane.set_device(device);
    v1::TraceInstruction& compute = *lane.add_instructions();
    compute.set_measured_start_seconds(1);
    compute.set_measured_end_seconds(4);
  }
  trace.mutable_lanes(1)->mutable_instructions(0)->set_stream(3);
  for (const int bytes : {7, 8}) {
    v1::PeerTraffic& traffic = *trace.mutable_lanes(0)->add_traffic();
    traffic.set_peer(1);
    traffic.set_operation("activation");
    traffic.set_bytes_sent(bytes);
  }
  OpenMetrics metrics;
  AddNodeFigures({node}, metrics);
  AddTraceFigures({trace}, metrics);
  const std::string text = metrics.Text();
  CHECK(Value(text, "medley_devices{kind=\"k\",use=\"busy\"}") == 1);
  CHECK(Value(text, "medley_devices{kind=\"k\",use=\"free\"}") == 1);
  CHECK(Value(text, "medley_device_busy_ratio{job=\"gpt-1\",device=\"a/cpu0\"}") == 0.75);
  CHECK(Value(text, "medley_device_busy_ratio{job=\"gpt-1\",device=\"a/cpu1\"}") == 0);
  CHECK(Value(text,
              "medley_link_sent_bytes{job=\"gpt-1\",device=\"a/cpu0\",peer=\"a/"
              "cpu1\",operation=\"activation\"}") == 15);
}

}  // namespace
}  // namespace medley

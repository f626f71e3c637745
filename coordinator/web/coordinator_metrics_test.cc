#include "coordinator/web/coordinator_metrics.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

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
  job.set_accounted_until_seconds(1097);
  job.set_step_seconds_total(45);
  job.set_repeated_step_seconds(15);
  job.set_validation_seconds_total(8);
  job.set_checkpoint_seconds_total(9);
  job.set_tokens_total(5000);
  job.set_parameters(100);
  job.set_measured_step_seconds(2);
  job.mutable_plan()->set_predicted_step_seconds(1);
  for (const char* name : {"a/cpu0", "a/cpu1", "b/cpu0"}) {
    v1::DeviceShare& device = *job.mutable_plan()->add_devices();
    device.set_device(name);
    device.set_kind("k");
    device.set_used(device.device() != "b/cpu0");
  }
  job.mutable_last_step()->set_tokens(64);
  job.mutable_last_step()->set_loss(3.5);
  return job;
}

std::string TextOf(const JobsToCount& jobs, double now_seconds = 1100) {
  OpenMetrics metrics;
  AddJobFigures(jobs, now_seconds, metrics);
  return metrics.Text();
}

TEST_CASE(
    "where a job's time went adds up to the time since its submission, to the second that is not known yet") {
  const std::string text = TextOf({.counts = {{v1::JOB_STATE_RUNNING, 1}}, .shown = {RunningJob()}});
  const auto part = [&](const std::string& name) {
    return Value(text, "medley_job_seconds_total{medley_job=\"gpt-1\",part=\"" + name + "\"}");
  };
  CHECK(part("queued") == 10);
  CHECK(part("launching") == 20);
  CHECK(part("steps") == 30);
  CHECK(part("repeated_steps") == 15);
  CHECK(part("validation") == 8);
  CHECK(part("checkpoint") == 9);
  CHECK(part("between_steps") == 5);
  CHECK(Value(text, "medley_job_unaccounted_seconds{medley_job=\"gpt-1\"}") == 3);
  CHECK(Value(text, "medley_job_state{medley_job=\"gpt-1\",state=\"running\"}") == 1);
  CHECK(Value(text, "medley_jobs{state=\"running\"}") == 1);
  CHECK(Value(text, "medley_jobs{state=\"failed\"}") == 0);
  const auto sum_of = [](const v1::Job& job, double now_seconds) {
    double sum = 0;
    for (const auto& [name, seconds] : TimeOf(job, now_seconds)) sum += seconds;
    return sum;
  };
  for (const double now : {1097.0, 1100.0, 5000.0}) CHECK(sum_of(RunningJob(), now) == now - 1000);
  v1::Job waiting = RunningJob();
  waiting.set_state(v1::JOB_STATE_QUEUED);
  CHECK(sum_of(waiting, 1200) == 200);
  v1::Job ended = RunningJob();
  ended.set_state(v1::JOB_STATE_DONE);
  CHECK(sum_of(ended, 1e6) == 70);
}

TEST_CASE("no part of a job's time falls when steps, validations, checkpoints and losses come") {
  v1::Job job = RunningJob();
  std::map<std::string, double> before;
  const auto look = [&] {
    for (const auto& [part, seconds] : TimeOf(job, 2000)) {
      INFO(part);
      if (!part.empty()) CHECK(seconds >= before[part]);
      before[part] = seconds;
    }
  };
  look();
  for (int i = 0; i < 20; ++i) {
    const double took = 1 + i % 3;
    job.set_accounted_until_seconds(job.accounted_until_seconds() + took + i % 2);
    if (i % 5 == 4) {
      job.set_checkpoint_seconds_total(job.checkpoint_seconds_total() + took);
    } else {
      job.set_step_seconds_total(job.step_seconds_total() + took);
      if (i % 4 == 0) job.set_repeated_step_seconds(job.repeated_step_seconds() + took);
    }
    look();
  }
}

TEST_CASE("what is known of a job has its figure, and what is not has none") {
  v1::Job fresh;
  fresh.set_id("new-2");
  fresh.set_state(v1::JOB_STATE_QUEUED);
  JobsToCount jobs{.shown = {RunningJob(), fresh}, .waiting = 1, .oldest_wait_seconds = 12};
  for (const auto& [shape, flops] : {std::pair("gpt2 hidden=64 precision=f32", 48000.0),
                                     {"gpt2 hidden=32 precision=f32", 30000.0},
                                     {"gpt2 hidden=64 precision=bf16 activations=bf16", 1e9}}) {
    v1::DeviceProfile& profile = jobs.profiles.emplace_back();
    profile.set_device_kind("k");
    profile.set_shape(shape);
    profile.set_matmul_flops_per_second(flops);
  }
  const std::string text = TextOf(jobs);
  CHECK(Value(text, "medley_job_tokens_per_second{medley_job=\"gpt-1\"}") == 32);
  CHECK(Value(text, "medley_job_flops_per_second{medley_job=\"gpt-1\"}") == 6 * 100 * 32);
  CHECK(Value(text, "medley_job_peak_flops_per_second{medley_job=\"gpt-1\"}") == 96000);
  CHECK(Value(text, "medley_job_model_flops_utilization_ratio{medley_job=\"gpt-1\"}") == 0.2);
  JobsToCount emulated = jobs;
  emulated.shown[0].mutable_plan()->set_emulated(true);
  CHECK_THAT(TextOf(emulated), !Catch::Contains("medley_job_flops_per_second{"));
  CHECK(Value(text, "medley_job_predicted_over_measured_ratio{medley_job=\"gpt-1\"}") == 0.5);
  CHECK(Value(text, "medley_job_loss{medley_job=\"gpt-1\"}") == 3.5);
  CHECK(Value(text, "medley_job_tokens_total{medley_job=\"gpt-1\"}") == 5000);
  CHECK(Value(text, "medley_queue_jobs") == 1);
  CHECK(Value(text, "medley_queue_oldest_wait_seconds") == 12);
  CHECK(text.find("medley_job_loss{medley_job=\"new-2\"}") == std::string::npos);
  // Of one kind nothing is known: there is no sum.
  jobs.shown[0].mutable_plan()->mutable_devices(0)->set_kind("other");
  CHECK(TextOf(jobs).find("medley_job_peak_flops_per_second{") == std::string::npos);
}

TEST_CASE("leases and the store's calls have their figures") {
  OpenMetrics metrics;
  AddLeaseFigures(5, 2, 7, metrics);
  DurationHistogram calls;
  calls.Add(0.3);
  AddStoreFigures({{"UpdateJob", calls}}, 3, metrics);
  const std::string text = metrics.Text();
  CHECK(Value(text, "medley_leases{state=\"held\"}") == 5);
  CHECK(Value(text, "medley_leases{state=\"expiring\"}") == 2);
  CHECK(Value(text, "medley_leases_lost_total") == 7);
  CHECK(Value(text, "medley_store_operation_duration_seconds_bucket{operation=\"UpdateJob\",le=\"0.5\"}") ==
        1);
  CHECK(Value(text, "medley_store_operation_duration_seconds_sum{operation=\"UpdateJob\"}") == 0.3);
  CHECK(Value(text, "medley_store_failures_total") == 3);
}

TEST_CASE("the newest backup has its time, and there being none is a time that is long ago") {
  const absl::Time made = absl::FromUnixSeconds(1769903999);
  OpenMetrics metrics, without;
  AddBackupFigures(made, absl::Hours(24), metrics);
  AddBackupFigures(std::nullopt, absl::Hours(24), without);
  CHECK(Value(metrics.Text(), "medley_store_newest_backup_timestamp_seconds") == 1769903999);
  CHECK(Value(metrics.Text(), "medley_store_backup_interval_seconds") == 86400);
  CHECK(Value(without.Text(), "medley_store_newest_backup_timestamp_seconds") == 0);
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
  CHECK(Value(text, "medley_device_busy_ratio{medley_job=\"gpt-1\",node=\"a\",device=\"cpu0\"}") == 0.75);
  CHECK(Value(text, "medley_device_busy_ratio{medley_job=\"gpt-1\",node=\"a\",device=\"cpu1\"}") == 0);
  CHECK(Value(text,
              "medley_link_sent_bytes{medley_job=\"gpt-1\",node=\"a\",device=\"cpu0\",peer_node=\"a\",peer_"
              "device=\"cpu1\","
              "operation=\"activation\"}") == 15);
}

}  // namespace
}  // namespace medley

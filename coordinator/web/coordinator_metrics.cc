#include "coordinator/web/coordinator_metrics.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/wire/model_flops.h"

namespace medley {
namespace {

using Type = OpenMetrics::Type;

std::string StateName(v1::JobState state) {
  return absl::AsciiStrToLower(absl::string_view(v1::JobState_Name(state)).substr(sizeof("JOB_STATE_") - 1));
}

bool HasEnded(const v1::Job& job) { return job.state() >= v1::JOB_STATE_DONE; }

// "node/device"
OpenMetrics::Labels DeviceLabels(const std::string& name, const std::string& prefix = "") {
  const size_t slash = std::min(name.find('/'), name.size());
  return {{prefix + "node", name.substr(0, slash)},
          {prefix + "device", slash < name.size() ? name.substr(slash + 1) : ""}};
}

template <typename... More>
OpenMetrics::Labels Joined(OpenMetrics::Labels labels, const More&... more) {
  (labels.insert(labels.end(), more.begin(), more.end()), ...);
  return labels;
}

OpenMetrics::Labels JobLabel(const std::string& id) { return {{"medley_job", id}}; }

}  // namespace

std::vector<std::pair<std::string, double>> TimeOf(const v1::Job& job, double now_seconds) {
  std::map<std::string, double> parts;
  // A counter that is there from the beginning loses nothing of its first increase.
  for (int state = v1::JOB_STATE_QUEUED; state < v1::JOB_STATE_DONE; ++state) {
    if (state != v1::JOB_STATE_RUNNING) parts[StateName(static_cast<v1::JobState>(state))] = 0;
  }
  double running = 0, unaccounted = 0;
  for (const v1::StateTime& past : job.past())
    (past.state() == v1::JOB_STATE_RUNNING ? running : parts[StateName(past.state())]) += past.seconds();
  const double since = job.state_since_seconds() > 0 ? job.state_since_seconds() : job.submitted_at_seconds();
  if (job.state() == v1::JOB_STATE_RUNNING) {
    const double until = std::max(since, job.accounted_until_seconds());
    running += until - since;
    unaccounted = std::max(0.0, now_seconds - until);
  } else if (!HasEnded(job)) {
    parts[StateName(job.state())] += std::max(0.0, now_seconds - since);
  }
  // Of jobs that older versions began, more may have been counted than there was.
  const auto take = [&](double seconds) {
    const double taken = std::min(running, std::max(0.0, seconds));
    running -= taken;
    return taken;
  };
  parts["steps"] = take(job.step_seconds_total() - job.repeated_step_seconds());
  parts["repeated_steps"] = take(job.repeated_step_seconds());
  parts["validation"] = take(job.validation_seconds_total());
  parts["checkpoint"] = take(job.checkpoint_seconds_total());
  parts["between_steps"] = running;
  parts[""] = unaccounted;
  return {parts.begin(), parts.end()};
}

void AddJobFigures(const JobsToCount& jobs, double now_seconds, OpenMetrics& metrics) {
  metrics.Family("medley_jobs", Type::kGauge, "All jobs by state.");
  for (int state = v1::JOB_STATE_QUEUED; state < v1::JobState_ARRAYSIZE; ++state) {
    const auto count = jobs.counts.find(static_cast<v1::JobState>(state));
    metrics.Add({{"state", StateName(static_cast<v1::JobState>(state))}},
                count == jobs.counts.end() ? 0 : static_cast<double>(count->second));
  }
  metrics.Single("medley_queue_jobs", Type::kGauge,
                 "Jobs that wait for devices, those among them that lost some.",
                 static_cast<double>(jobs.waiting));
  metrics.Single("medley_queue_oldest_wait_seconds", Type::kGauge,
                 "Of the job that waits for longest; 0: none waits.", jobs.oldest_wait_seconds);
  metrics.Family("medley_job_state", Type::kGauge, "1: the state that the job is in.");
  for (const v1::Job& job : jobs.shown)
    metrics.Add(Joined(JobLabel(job.id()), OpenMetrics::Labels{{"state", StateName(job.state())}}), 1);

  // A figure of each job for which it is known.
  const auto of_jobs = [&](const char* name, Type type, const char* help,
                           const std::function<bool(const v1::Job&)>& is_known,
                           const std::function<double(const v1::Job&)>& value) {
    metrics.Family(name, type, help);
    for (const v1::Job& job : jobs.shown) {
      if (is_known(job)) metrics.Add(JobLabel(job.id()), value(job));
    }
  };
  const auto always = [](const v1::Job&) { return true; };
  const auto has_step = [](const v1::Job& job) { return job.has_last_step(); };
  const auto is_measured = [](const v1::Job& job) { return job.measured_step_seconds() > 0; };
  const auto computes = [](const v1::Job& job) { return ModelFlopsPerSecond(job) > 0; };
  const auto is_planned = [](const v1::Job& job) { return job.plan().predicted_step_seconds() > 0; };
  const auto speed = [](const v1::Job& job) {
    return static_cast<double>(job.last_step().tokens()) / job.measured_step_seconds();
  };
  of_jobs("medley_job_step", Type::kGauge, "The newest step.", always,
          [](const v1::Job& job) { return job.last_step().step(); });
  of_jobs("medley_job_steps_wanted", Type::kGauge, "The steps that the job is to make.", always,
          [](const v1::Job& job) { return job.spec().steps(); });
  of_jobs("medley_job_loss", Type::kGauge, "Of the newest step, in nats a token.", has_step,
          [](const v1::Job& job) { return job.last_step().loss(); });
  of_jobs(
      "medley_job_validation_loss", Type::kGauge, "Of the newest validation, in nats a token.",
      [](const v1::Job& job) { return job.last_validation().step() > 0; },
      [](const v1::Job& job) { return job.last_validation().loss(); });
  of_jobs("medley_job_gradient_norm", Type::kGauge, "Of the newest step, before clipping.", has_step,
          [](const v1::Job& job) { return job.last_step().gradient_norm(); });
  of_jobs("medley_job_tokens", Type::kCounter, "Tokens trained on, those of steps that were made again once.",
          always, [](const v1::Job& job) { return static_cast<double>(job.tokens_total()); });
  of_jobs("medley_job_tokens_per_second", Type::kGauge, "Of the attempt, by the median of its steps.",
          is_measured, speed);
  of_jobs("medley_job_flops_per_second", Type::kGauge,
          "Operations of the model: six for each parameter and token.", computes, ModelFlopsPerSecond);
  const auto peak = [&](const v1::Job& job) { return PeakFlopsPerSecond(job, jobs.profiles); };
  of_jobs(
      "medley_job_peak_flops_per_second", Type::kGauge,
      "What the plan's devices make of products of large matrices, as was measured.",
      [&](const v1::Job& job) { return peak(job) > 0; }, peak);
  of_jobs(
      "medley_job_model_flops_utilization_ratio", Type::kGauge,
      "MFU: the model's operations over what the plan's devices make of products of large matrices.",
      [&](const v1::Job& job) { return computes(job) && peak(job) > 0; },
      [&](const v1::Job& job) { return ModelFlopsPerSecond(job) / peak(job); });
  of_jobs("medley_job_step_seconds", Type::kGauge, "Median of the attempt's steps.", is_measured,
          [](const v1::Job& job) { return job.measured_step_seconds(); });
  of_jobs("medley_job_predicted_step_seconds", Type::kGauge, "What the plan says that a step takes.",
          is_planned, [](const v1::Job& job) { return job.plan().predicted_step_seconds(); });
  of_jobs(
      "medley_job_predicted_over_measured_ratio", Type::kGauge, "Below 1: steps take longer than predicted.",
      [&](const v1::Job& job) { return is_measured(job) && is_planned(job); },
      [](const v1::Job& job) { return job.plan().predicted_step_seconds() / job.measured_step_seconds(); });
  of_jobs("medley_job_restarts", Type::kCounter, "Losses that made the job start anew.", always,
          [](const v1::Job& job) { return job.restarts(); });
  of_jobs("medley_job_checkpoint_step", Type::kGauge, "The step of the newest checkpoint.", always,
          [](const v1::Job& job) { return job.checkpoint_step(); });
  of_jobs("medley_job_checkpoint_problem", Type::kGauge, "1: the newest checkpoint could not be written.",
          always, [](const v1::Job& job) { return job.checkpoint_problem().empty() ? 0 : 1; });
  metrics.Family("medley_job_seconds", Type::kCounter,
                 "Where a job's time since its submission went, as far as it is known; \"steps\" over all "
                 "parts is its goodput.");
  for (const v1::Job& job : jobs.shown) {
    for (const auto& [part, seconds] : TimeOf(job, now_seconds)) {
      if (!part.empty())
        metrics.Add(Joined(JobLabel(job.id()), OpenMetrics::Labels{{"part", part}}), seconds);
    }
  }
  metrics.Family(
      "medley_job_unaccounted_seconds", Type::kGauge,
      "Since a job that runs last ended a step, a validation or a checkpoint: not among its parts yet.");
  for (const v1::Job& job : jobs.shown) {
    if (job.state() == v1::JOB_STATE_RUNNING)
      metrics.Add(JobLabel(job.id()), TimeOf(job, now_seconds).front().second);
  }
}

void AddNodeFigures(const std::vector<v1::Node>& nodes, OpenMetrics& metrics) {
  metrics.Family("medley_node_alive", Type::kGauge, "1: the node's lease is held.");
  for (const v1::Node& node : nodes) metrics.Add({{"node", node.name()}}, node.alive() ? 1 : 0);
  metrics.Family("medley_node_renewal_age_seconds", Type::kGauge, "Since the node renewed its lease.");
  for (const v1::Node& node : nodes) {
    if (node.alive()) metrics.Add({{"node", node.name()}}, node.seconds_since_renewal());
  }
  std::map<std::pair<std::string, std::string>, int> devices;  // by kind and use
  for (const v1::Node& node : nodes) {
    for (const v1::Device& device : node.devices())
      ++devices[{device.kind(), !node.alive()                          ? "lost"
                                : node.jobs().count(device.name()) > 0 ? "busy"
                                                                       : "free"}];
  }
  metrics.Family("medley_devices", Type::kGauge, "Devices by kind, and whether a job has them.");
  for (const auto& [what, count] : devices) metrics.Add({{"kind", what.first}, {"use", what.second}}, count);
  metrics.Family("medley_device_memory_limit_bytes", Type::kGauge, "What a plan may put on a device.");
  for (const v1::Node& node : nodes) {
    for (const v1::Device& device : node.devices())
      metrics.Add({{"node", node.name()}, {"device", device.name()}},
                  static_cast<double>(device.memory_bytes()));
  }
}

void AddLeaseFigures(int held, int expiring, uint64_t lost, OpenMetrics& metrics) {
  metrics.Family("medley_leases", Type::kGauge,
                 "Of nodes: held ones, and those of them that were not renewed in time.");
  metrics.Add({{"state", "held"}}, held);
  metrics.Add({{"state", "expiring"}}, expiring);
  metrics.Single("medley_leases_lost", Type::kCounter, "Leases that ended since this coordinator began.",
                 static_cast<double>(lost));
}

void AddStoreFigures(const std::map<std::string, DurationHistogram>& durations, uint64_t failures,
                     OpenMetrics& metrics) {
  metrics.Family("medley_store_operation_duration_seconds", Type::kHistogram,
                 "How long the store's calls took, those that write until the disk has it.");
  for (const auto& [operation, calls] : durations) metrics.AddHistogram({{"operation", operation}}, calls);
  metrics.Single("medley_store_failures", OpenMetrics::Type::kCounter,
                 "How often the store's file failed calls: full, gone, read-only or damaged.",
                 static_cast<double>(failures));
}

void AddBackupFigures(std::optional<absl::Time> newest, absl::Duration every, OpenMetrics& metrics) {
  metrics.Single(
      "medley_store_newest_backup_timestamp_seconds", Type::kGauge,
      "When the coordinator's newest backup of its store was made, in Unix time; 0: there is none.",
      newest.has_value() ? static_cast<double>(absl::ToUnixSeconds(*newest)) : 0);
  metrics.Single("medley_store_backup_interval_seconds", Type::kGauge,
                 "From one such backup to the next, as is configured.", absl::ToDoubleSeconds(every));
}

void AddTraceFigures(const std::vector<v1::Trace>& traces, OpenMetrics& metrics) {
  metrics.Family("medley_device_busy_ratio", Type::kGauge,
                 "The part of the newest traced step in which a device computes.");
  for (const v1::Trace& trace : traces) {
    double end = 0;
    for (const v1::TraceLane& lane : trace.lanes()) {
      for (const v1::TraceInstruction& instruction : lane.instructions())
        end = std::max(end, instruction.measured_end_seconds());
    }
    for (const v1::TraceLane& lane : trace.lanes()) {
      double busy = 0;
      for (const v1::TraceInstruction& instruction : lane.instructions()) {
        if (instruction.stream() == 0)
          busy += instruction.measured_end_seconds() - instruction.measured_start_seconds();
      }
      if (end > 0) metrics.Add(Joined(JobLabel(trace.job_id()), DeviceLabels(lane.device())), busy / end);
    }
  }
  const auto of_peers = [&](const char* name, const char* help,
                            const std::function<double(const v1::PeerTraffic&)>& value) {
    metrics.Family(name, Type::kGauge, help);
    for (const v1::Trace& trace : traces) {
      for (const v1::TraceLane& lane : trace.lanes()) {
        std::map<std::pair<std::string, std::string>, double> sums;  // by peer and operation
        for (const v1::PeerTraffic& traffic : lane.traffic()) {
          if (static_cast<int>(traffic.peer()) < trace.lanes_size())
            sums[{trace.lanes(static_cast<int>(traffic.peer())).device(), traffic.operation()}] +=
                value(traffic);
        }
        for (const auto& [what, sum] : sums)
          metrics.Add(
              Joined(JobLabel(trace.job_id()), DeviceLabels(lane.device()), DeviceLabels(what.first, "peer_"),
                     OpenMetrics::Labels{{"operation", what.second}}),
              sum);
      }
    }
  };
  of_peers("medley_link_sent_bytes", "Sent to a peer since the attempt began, until the newest traced step.",
           [](const v1::PeerTraffic& traffic) { return static_cast<double>(traffic.bytes_sent()); });
  of_peers("medley_link_wait_seconds",
           "Waited for messages of a peer since the attempt began, until the newest traced step.",
           [](const v1::PeerTraffic& traffic) { return traffic.wait_seconds(); });
  of_peers("medley_link_dropped_messages", "Of other attempts, dropped.",
           [](const v1::PeerTraffic& traffic) { return static_cast<double>(traffic.dropped_messages()); });
}

}  // namespace medley

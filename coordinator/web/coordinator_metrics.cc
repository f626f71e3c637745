#include "coordinator/web/coordinator_metrics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using Type = OpenMetrics::Type;

// Labels are bounded: of jobs that have ended so many have figures.
constexpr size_t kEndedJobs = 20;
constexpr double kFlopsPerParameterAndToken = 6;

std::string StateName(v1::JobState state) {
  return absl::AsciiStrToLower(absl::string_view(v1::JobState_Name(state)).substr(sizeof("JOB_STATE_") - 1));
}

bool HasEnded(const v1::Job& job) { return job.state() >= v1::JOB_STATE_DONE; }

// Each part of a job's time since it was submitted, by what it went to; they add up to it.
std::map<std::string, double> TimeOf(const v1::Job& job, double now_seconds) {
  std::map<std::string, double> parts;
  double running = 0;
  const auto add = [&](v1::JobState state, double seconds) {
    (state == v1::JOB_STATE_RUNNING ? running : parts[StateName(state)]) += seconds;
  };
  for (const v1::StateTime& past : job.past()) add(past.state(), past.seconds());
  const double since = job.state_since_seconds() > 0 ? job.state_since_seconds() : job.submitted_at_seconds();
  if (!HasEnded(job)) add(job.state(), std::max(0.0, now_seconds - since));
  const double steps = std::min(running, job.step_seconds_total()),
               repeated = std::min(steps, job.repeated_step_seconds());
  parts["steps"] = steps - repeated;
  parts["repeated_steps"] = repeated;
  // Between steps: checkpoints, validation, the connection's making, and waiting to find out that somebody is gone.
  parts["between_steps"] = running - steps;
  return parts;
}

}  // namespace

void AddJobFigures(const std::vector<v1::Job>& jobs, double now_seconds, OpenMetrics& metrics) {
  std::array<int, v1::JobState_ARRAYSIZE> counts = {};
  std::vector<const v1::Job*> shown;
  size_t ended = 0;
  for (const v1::Job& job : jobs) {
    ++counts[job.state()];
    if (!HasEnded(job) || ++ended <= kEndedJobs) shown.push_back(&job);
  }
  metrics.Family("medley_jobs", Type::kGauge, "Jobs by state.");
  for (int state = v1::JOB_STATE_QUEUED; state < v1::JobState_ARRAYSIZE; ++state)
    metrics.Add({{"state", StateName(static_cast<v1::JobState>(state))}}, counts[state]);

  // A figure of each job for which it is known.
  const auto of_jobs = [&](const char* name, Type type, const char* help,
                           const std::function<bool(const v1::Job&)>& is_known,
                           const std::function<double(const v1::Job&)>& value) {
    metrics.Family(name, type, help);
    for (const v1::Job* job : shown) {
      if (is_known(*job)) metrics.Add({{"job", job->id()}}, value(*job));
    }
  };
  const auto always = [](const v1::Job&) { return true; };
  const auto has_step = [](const v1::Job& job) { return job.has_last_step(); };
  const auto is_measured = [](const v1::Job& job) { return job.measured_step_seconds() > 0; };
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
  of_jobs("medley_job_tokens", Type::kCounter, "Tokens trained on; those of steps that were made again once.",
          always, [](const v1::Job& job) { return static_cast<double>(job.tokens_total()); });
  of_jobs("medley_job_tokens_per_second", Type::kGauge, "Of the attempt, by the median of its steps.",
          is_measured, speed);
  of_jobs("medley_job_flops_per_second", Type::kGauge,
          "Operations of the model: six for each parameter and token.", is_measured, [&](const v1::Job& job) {
            return kFlopsPerParameterAndToken * static_cast<double>(job.parameters()) * speed(job);
          });
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
                 "Where a job's time since its submission went; the parts add up to it, and \"steps\" over "
                 "them all is its goodput.");
  for (const v1::Job* job : shown) {
    for (const auto& [part, seconds] : TimeOf(*job, now_seconds))
      metrics.Add({{"job", job->id()}, {"part", part}}, seconds);
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
      if (end > 0) metrics.Add({{"job", trace.job_id()}, {"device", lane.device()}}, busy / end);
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
          metrics.Add({{"job", trace.job_id()},
                       {"device", lane.device()},
                       {"peer", what.first},
                       {"operation", what.second}},
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

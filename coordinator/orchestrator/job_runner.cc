#include "coordinator/orchestrator/job_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/trace_collector.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/codec/job_codec.h"
#include "runtime/codec/plan_codec.h"
#include "runtime/codec/reduction_codec.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

// Loading a model from a slow disk takes a while; a worker that hangs does not.
constexpr absl::Duration kPrepareTime = absl::Minutes(3);

// Whether the same job may well go on elsewhere or later.
bool IsLoss(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted: return true;
    default: return false;
  }
}

// The newest complete checkpoint's directory; "" if there is none. Workers may have come further than the journal knows
// when the coordinator was killed: from a checkpoint within what it knows, the metrics of those steps are made again.
absl::StatusOr<std::string> CheckpointToResume(const TrainingSpec& training, const v1::Job& job, JobJournal& journal) {
  if (training.checkpoint_directory.empty()) return std::string();
  ASSIGN_OR_RETURN(CheckpointSearch search,
                   LatestCheckpoint(training.checkpoint_directory, Verification::kChecksums, job.last_step().step()));
  if (!search.latest) {
    ASSIGN_OR_RETURN(search, LatestCheckpoint(training.checkpoint_directory));
  }
  for (const SkippedCheckpoint& skipped : search.skipped) {
    journal.Log(job.id(), "coordinator",
                absl::StrCat("checkpoint ", skipped.directory, " is passed over: ", skipped.reason.message()));
  }
  if (search.latest) return search.latest->directory;
  return job.checkpoint_path();  // where the coordinator does not see the directory, its word stands
}

// The spec with the cluster's devices as its constraint: of those that it names some may be gone, or too small. A pinned plan
// needs its own.
v1::JobSpec OnDevicesOf(const v1::ClusterSpec& cluster, v1::JobSpec spec) {
  if (spec.has_plan()) return spec;
  auto& devices = *spec.mutable_constraints()->mutable_devices();
  devices.Clear();
  for (const v1::Node& node : cluster.nodes()) {
    for (const v1::Device& device : node.devices()) *devices.Add() = absl::StrCat(node.name(), "/", device.name());
  }
  return spec;
}

std::vector<std::string> EmulatedInUse(const v1::PlanReport& report) {
  std::vector<std::string> names;
  for (const v1::DeviceShare& share : report.devices()) {
    if (share.used() && share.emulated()) names.push_back(share.device());
  }
  return names;
}

}  // namespace

absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id) {
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    absl::StatusOr<ModelConfig> read = ReadModelConfig(spec.model().hugging_face());
    if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat("model.hugging_face: ", read.status().message()));
    config = *read;
  }
  return DecodeJobSpec(spec, job_id, config);
}

void JobRunner::Abort(JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  if (!aborted_) aborted_ = RunOutcome{.event = event, .cause = cause};
  for (AttemptRun* run : current_) run->Abort(absl::CancelledError(cause));
}

bool JobRunner::cancelled() {
  MutexLock lock(mutex_);
  return aborted_ && aborted_->event == JobEvent::kCancelled;
}

AttemptEnd JobRunner::RunAttempt(std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks,
                             absl::Duration prepare_timeout) {
  AttemptRun run(services_.agents, std::move(tasks));
  {
    MutexLock lock(mutex_);
    if (aborted_) return {.status = absl::CancelledError(aborted_->cause)};
    current_.insert(&run);
  }
  AttemptEnd end = run.Run(callbacks, prepare_timeout);
  MutexLock lock(mutex_);
  current_.erase(&run);
  return end;
}

Measurement::Result JobRunner::Measure(const v1::JobSpec& spec, const TrainingSpec& training) {
  Measurement measurement(
      services_.store,
      [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
        return RunAttempt(std::move(tasks), callbacks, kPrepareTime);
      },
      [this](const std::string& what) {
        services_.journal.Log(job_id_, "coordinator", what);
        (void)services_.journal.Change(job_id_, [&](v1::Job& job) { job.set_state_reason(what); });
      });
  return measurement.Complete({.spec = spec, .training = training, .devices = devices_});
}

// A job that does not name its devices was given none that it must not have: the refusal is the one for those that do.
absl::Status JobRunner::RefuseEmulated(const v1::JobSpec& spec) const {
  if (spec.allow_emulated()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : devices_) {
    if (device.device.emulated) names.push_back(FullName(device));
  }
  if (names.empty()) return absl::OkStatus();
  return EmulatedRefusal(spec.has_plan() ? "plan.units" : "constraints.devices", names);
}

absl::StatusOr<PlannedJob> JobRunner::PlanOnly(const v1::JobSpec& spec) {
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(spec, ""));
  RETURN_IF_ERROR(RefuseEmulated(spec));
  const Measurement::Result measured = Measure(spec, training);
  RETURN_IF_ERROR(measured.end.status);
  return PlanJob(OnDevicesOf(measured.cluster, spec), training, measured.cluster);
}

absl::Status JobRunner::RefreshLinks() {
  LinkMeasurement links(
      services_.store,
      [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
        return RunAttempt(std::move(tasks), callbacks, kPrepareTime);
      },
      [](const std::string& what) { spdlog::info("{}", what); });
  return links.Measure(devices_, LinkMeasurement::What::kAll).status;
}

RunOutcome JobRunner::OutcomeOf(const AttemptEnd& end) {
  MutexLock lock(mutex_);
  if (aborted_) return {.event = aborted_->event, .cause = aborted_->cause, .end = end};
  if (end.status.ok()) return {};
  return {.event = IsLoss(end.status) ? JobEvent::kLost : JobEvent::kRefused,
          .cause = std::string(end.status.message()),
          .end = end};
}

RunOutcome JobRunner::Run() {
  const auto refuse = [&](const absl::Status& status) { return OutcomeOf({.status = status}); };
  const absl::StatusOr<v1::Job> job = services_.journal.Get(job_id_);
  if (!job.ok()) return refuse(job.status());
  const absl::StatusOr<TrainingSpec> training = ResolveSpec(job->spec(), job_id_);
  if (!training.ok()) return refuse(training.status());
  if (const absl::Status allowed = RefuseEmulated(job->spec()); !allowed.ok()) return refuse(allowed);

  const Measurement::Result measured = Measure(job->spec(), *training);
  if (!measured.end.status.ok()) return OutcomeOf(measured.end);
  (void)services_.journal.Apply(job_id_, JobEvent::kProfiled, "");

  const absl::StatusOr<PlannedJob> planned = PlanJob(OnDevicesOf(measured.cluster, job->spec()), *training, measured.cluster);
  if (absl::IsResourceExhausted(planned.status())) {
    return {.event = JobEvent::kWaitForDevices, .cause = std::string(planned.status().message())};
  }
  if (!planned.ok()) return refuse(planned.status());
  (void)services_.journal.Apply(job_id_, JobEvent::kPlanned, "");
  services_.journal.Log(job_id_, "coordinator", absl::StrCat("plan: ", planned->report.description()));
  if (planned->report.emulated()) {
    services_.journal.Log(job_id_, "coordinator",
                          absl::StrCat("EMULATED: ", absl::StrJoin(EmulatedInUse(planned->report), ", "),
                                       " take time and compute nothing; losses of this attempt mean nothing"));
  }
  return Train(*training, *planned);
}

absl::StatusOr<std::vector<AttemptTask>> JobRunner::TrainingTasks(const v1::Job& job, const TrainingSpec& training,
                                                                const PlannedJob& planned, uint64_t attempt) {
  ASSIGN_OR_RETURN(const std::string checkpoint, CheckpointToResume(training, job, services_.journal));
  if (!checkpoint.empty()) services_.journal.Log(job_id_, "coordinator", absl::StrCat("going on from ", checkpoint));
  std::vector<AttemptTask> tasks;
  for (size_t unit = 0; unit < planned.plan.units.size(); ++unit) {
    const std::string& name = planned.plan.units[unit].device;
    const auto device = std::find_if(devices_.begin(), devices_.end(),
                                     [&](const ClusterDeviceLocation& d) { return FullName(d) == name; });
    if (device == devices_.end()) return absl::InternalError(absl::StrCat("the plan uses ", name, ", which was not granted"));
    AttemptTask& task = tasks.emplace_back(AttemptTask{.device = name, .agent_address = device->agent_address});
    task.request.set_task_id(absl::StrCat(job_id_, "/", attempt, "/", unit));
    task.request.set_attempt(attempt);
    task.request.set_device(device->device.description.name);
    v1::TrainTask& train = *task.request.mutable_train();
    *train.mutable_spec() = job.spec();
    *train.mutable_plan() = EncodePlan(planned.plan);
    train.set_unit(static_cast<uint32_t>(unit));
    train.set_resume_from(checkpoint);
    train.set_job_id(job_id_);
    for (const ReductionChoice& reduction : planned.reductions) *train.add_reductions() = EncodeReduction(reduction);
  }
  return tasks;
}

RunOutcome JobRunner::Train(const TrainingSpec& training, const PlannedJob& planned) {
  const absl::StatusOr<uint64_t> attempt = services_.store.NextAttempt();
  if (!attempt.ok()) return OutcomeOf({.status = attempt.status()});
  const absl::StatusOr<v1::Job> job = services_.journal.Change(job_id_, [&](v1::Job& j) {
    *j.mutable_plan() = planned.report;
    j.set_attempt(j.attempt() + 1);
    j.set_parameters(static_cast<uint64_t>(ModelElements(training.shape.model)));
    j.clear_measured_step_seconds();
  });
  if (!job.ok()) return OutcomeOf({.status = job.status()});
  absl::StatusOr<std::vector<AttemptTask>> tasks = TrainingTasks(*job, training, planned, *attempt);
  if (!tasks.ok()) return OutcomeOf({.status = tasks.status()});

  Mutex trace_mutex;
  TraceCollector traces(job_id_, planned, training.shape);
  return OutcomeOf(RunAttempt(*std::move(tasks), {
      .launched = [&] { (void)services_.journal.Apply(job_id_, JobEvent::kLaunched, ""); },
      .event = [&](int unit, const v1::WorkerEvent& event) {
        if (!event.has_measured()) return OnEvent(planned, job->attempt(), unit, event);
        MutexLock lock(trace_mutex);
        if (const std::optional<v1::Trace> trace = traces.Add(unit, event.measured())) {
          (void)services_.store.PutTrace(*trace);
        }
      }}, kPrepareTime));
}

void JobRunner::OnEvent(const PlannedJob& planned, uint32_t attempt, int unit, const v1::WorkerEvent& event) {
  switch (event.event_case()) {
    case v1::WorkerEvent::kStep: {
      v1::StepMetrics step = event.step();
      step.set_attempt(attempt);
      step.set_emulated(planned.report.emulated());
      return services_.journal.AddStep(job_id_, step);
    }
    case v1::WorkerEvent::kValidation: return services_.journal.AddValidation(job_id_, event.validation());
    case v1::WorkerEvent::kCheckpoint:
      (void)services_.journal.Change(job_id_, [&](v1::Job& job) {
        job.set_checkpoint_path(event.checkpoint().path());
        job.set_checkpoint_step(event.checkpoint().step());
      });
      return services_.journal.Log(job_id_, planned.plan.units[unit].device,
                                   absl::StrCat("checkpoint of step ", event.checkpoint().step(), " at ",
                                                event.checkpoint().path()));
    case v1::WorkerEvent::kLog: return services_.journal.Log(job_id_, planned.plan.units[unit].device, event.log());
    default: return;
  }
}

}  // namespace medley

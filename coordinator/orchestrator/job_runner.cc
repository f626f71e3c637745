#include "coordinator/orchestrator/job_runner.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_beginning.h"
#include "coordinator/orchestrator/job_time.h"
#include "coordinator/orchestrator/prediction_record.h"
#include "coordinator/orchestrator/profile_learning.h"
#include "coordinator/orchestrator/protection_terms.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/wire/plan_report_codec.h"
#include "runtime/base/clock.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/stop_after.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/log/log.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/reduction_codec.h"

namespace medley {
namespace {

// Measuring may compile kernels, which takes minutes and shows no progress.
constexpr double kMeasuringSilenceSeconds = 900;
// No device is silent for so long in training while all is well: so many steps, and at least so many seconds.
constexpr double kLeastSilenceSeconds = 120, kStepsOfSilence = 20;

// Whether the same job may well go on elsewhere or later.
bool IsLoss(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

// The spec with the cluster's devices as its constraint: of those that it names some may be gone, or too
// small. A pinned plan needs its own.
v1::JobSpec OnDevicesOf(const Cluster& cluster, v1::JobSpec spec) {
  if (spec.has_plan()) return spec;
  auto& devices = *spec.mutable_constraints()->mutable_devices();
  devices.Clear();
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) *devices.Add() = FullName(node.name, device);
  }
  return spec;
}

absl::StatusOr<PlannedJob> PlanOn(const Cluster& cluster, const v1::JobSpec& spec,
                                  const TrainingSpec& training, Comparison comparison,
                                  const SearchLimits& limits, const std::vector<LeftOutDevice>& left_out = {},
                                  ParetoListing listing = ParetoListing::kIfNeeded,
                                  const Plan& running = {}) {
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(spec));
  return PlanJob(training, constraints, cluster, comparison, left_out, limits, listing, running);
}

// Of a CheckpointWritten or a CheckpointFailed.
template <typename Event>
void CountCheckpointTime(v1::Job& job, const Event& event) {
  job.set_checkpoint_seconds_total(job.checkpoint_seconds_total() +
                                   TakeTime(job, event.seconds(), event.at_seconds()));
}

}  // namespace

absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id) {
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    absl::StatusOr<ModelConfig> read = ReadModelConfig(spec.model().hugging_face());
    if (!read.ok())
      return absl::InvalidArgumentError(absl::StrCat("model.hugging_face: ", read.status().message()));
    config = *read;
  }
  return DecodeJobSpec(spec, job_id, config);
}

void JobRunner::Abort(JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  // That somebody cancelled it was promised to them.
  if (!aborted_ || event == JobEvent::kCancelled) aborted_ = RunOutcome{.event = event, .cause = cause};
  stop_planning_ = true;
  for (AttemptRun* run : current_) run->Abort(absl::CancelledError(cause));
}

void JobRunner::FinishEarly(JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  if (!wish_ || wish_->event != JobEvent::kCancelled) wish_ = RunOutcome{.event = event, .cause = cause};
  if (training_ != nullptr) training_->FinishEarly();
}

void JobRunner::RepeatWish() {
  MutexLock lock(mutex_);
  if (wish_ && training_ != nullptr) training_->FinishEarly();
}

void JobRunner::Leave() {
  MutexLock lock(mutex_);
  leaving_ = true;
  stop_planning_ = true;
  for (AttemptRun* run : current_) {
    if (run == training_) {
      run->Leave();
    } else {
      run->Abort(absl::CancelledError("the coordinator is stopping"));
    }
  }
}

bool JobRunner::cancelled() {
  MutexLock lock(mutex_);
  return aborted_ && aborted_->event == JobEvent::kCancelled;
}

std::vector<std::string> JobRunner::TaskIds() {
  MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const AttemptRun* run : current_) {
    for (std::string& id : run->TaskIds()) ids.push_back(std::move(id));
  }
  return ids;
}

absl::Time JobRunner::LastHeard() {
  MutexLock lock(mutex_);
  return training_ == nullptr ? absl::InfinitePast() : heard_;
}

absl::Status JobRunner::StillWanted() {
  MutexLock lock(mutex_);
  if (aborted_) return absl::CancelledError(aborted_->cause);
  if (leaving_) return absl::CancelledError("the coordinator is stopping");
  return absl::OkStatus();
}

AttemptEnd JobRunner::WhileUnderWay(AttemptRun& run, bool trains, const std::function<AttemptEnd()>& work) {
  {
    MutexLock lock(mutex_);
    if (aborted_) return {.status = absl::CancelledError(aborted_->cause)};
    if (leaving_) return {.status = absl::CancelledError("the coordinator is stopping")};
    current_.insert(&run);
    if (trains) training_ = &run;
    heard_ = Now();
  }
  AttemptEnd end = work();
  MutexLock lock(mutex_);
  current_.erase(&run);
  if (trains) training_ = nullptr;
  return end;
}

AttemptEnd JobRunner::RunAttempt(std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
  const bool trains = tasks.front().request.has_train();
  for (AttemptTask& task : tasks) {
    if (!trains) task.request.set_silence_seconds(kMeasuringSilenceSeconds);
  }
  AttemptRun run(services_.agents, std::move(tasks));
  return WhileUnderWay(run, trains, [&] { return run.Run(callbacks); });
}

Measurement JobRunner::MeasurementOf() {
  return Measurement(
      services_.store,
      [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
        return RunAttempt(std::move(tasks), callbacks);
      },
      [this](const std::string& what) {
        services_.journal.Log(job_id_, "coordinator", what);
        (void)services_.journal.Change(job_id_, [&](v1::Job& job) { job.set_state_reason(what); });
      });
}

Measurement::Result JobRunner::Measure(const v1::JobSpec& spec, const TrainingSpec& training) {
  return MeasurementOf().Complete(
      {.spec = spec, .training = training, .devices = devices_, .stop = &stop_planning_});
}

// A job that does not name its devices was given none that it must not have: the refusal is the one for those
// that do.
absl::Status JobRunner::RefuseEmulated(const v1::JobSpec& spec) const {
  if (spec.allow_emulated()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : devices_) {
    if (device.device.emulated) names.push_back(FullName(device));
  }
  if (names.empty()) return absl::OkStatus();
  return EmulatedRefusal(spec.has_plan() ? "plan.units" : "constraints.devices", names);
}

absl::StatusOr<PlannedJob> JobRunner::PlanOnly(const v1::JobSpec& asked, absl::Duration time_limit,
                                               ParetoListing listing) {
  ASSIGN_OR_RETURN(const v1::JobSpec spec, WithProtection(asked, services_.least_protection, devices_));
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(spec, ""));
  RETURN_IF_ERROR(RefuseEmulated(spec));
  const Measurement::Result measured = Measure(spec, training);
  RETURN_IF_ERROR(measured.end.status);
  const StopAfter limit(stop_planning_, time_limit);
  absl::StatusOr<PlannedJob> planned = PlanOn(measured.cluster, OnDevicesOf(measured.cluster, spec), training,
                                              Comparison::kOtherKinds, Limits(), measured.left_out, listing);
  RETURN_IF_ERROR(StillWanted());
  if (absl::IsCancelled(planned.status())) return NoPlanWithin(absl::ToDoubleSeconds(time_limit));
  return planned;
}

absl::StatusOr<Explanation> JobRunner::Compare(const Plan& plan, const v1::PlanGrounds& grounds) {
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(grounds.spec(), job_id_));
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(grounds.spec()));
  ASSIGN_OR_RETURN(const Cluster cluster, DecodeCluster(grounds.cluster()));
  absl::StatusOr<Explanation> explanation = ComparePlan(plan, training, constraints, cluster, Limits());
  RETURN_IF_ERROR(StillWanted());
  return explanation;
}

absl::StatusOr<PlannedJob> JobRunner::PlanBeside(const v1::JobSpec& asked,
                                                 const std::vector<ClusterDeviceLocation>& beside) {
  std::vector<ClusterDeviceLocation> together = devices_;
  together.insert(together.end(), beside.begin(), beside.end());
  ASSIGN_OR_RETURN(const v1::JobSpec spec, WithProtection(asked, services_.least_protection, together));
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(spec, ""));
  MeasurementRequest all{.spec = spec, .training = training, .devices = devices_};
  if (!devices_.empty()) {
    const Measurement::Result measured = Measure(spec, training);
    RETURN_IF_ERROR(measured.end.status);
  }
  all.devices = together;
  Cluster cluster;
  RETURN_IF_ERROR(MeasurementOf().Known(all, cluster).status);
  // Links to devices that are in use cannot be measured now.
  std::vector<LinkCost> costs;
  for (const ClusterLink& link : cluster.links) costs.push_back(link.cost);
  for (const ClusterLinkClass& link : cluster.link_classes) costs.push_back(link.cost);
  cluster.default_link = SupposedLink(costs);
  absl::StatusOr<PlannedJob> planned =
      PlanOn(cluster, OnDevicesOf(cluster, spec), training, Comparison::kNone, Limits());
  RETURN_IF_ERROR(StillWanted());
  return planned;
}

absl::Status JobRunner::RefreshLinks(MessageProtection protection) {
  LinkMeasurement links(
      services_.store,
      [this](std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks) {
        return RunAttempt(std::move(tasks), callbacks);
      },
      [](const std::string& what) { LogInfo(what); }, protection);
  return links.Measure(devices_, LinkMeasurement::What::kAll).status;
}

RunOutcome JobRunner::OutcomeOf(const AttemptEnd& end) {
  MutexLock lock(mutex_);
  if (end.left) return {.left = true};
  if (aborted_) return {.event = aborted_->event, .cause = aborted_->cause, .end = end};
  if (end.stopped) {
    return {.event = wish_ ? wish_->event : JobEvent::kInterrupted,
            .cause = wish_ ? wish_->cause : "it was asked to finish early",
            .end = end};
  }
  if (end.status.ok()) return {};
  if (leaving_) return {.event = JobEvent::kInterrupted, .cause = "the coordinator was stopped", .end = end};
  if (end.store_failed)
    return {.event = JobEvent::kInterrupted, .cause = std::string(end.status.message()), .end = end};
  // A message that did not arrive as it was sent says nothing against the job.
  const bool lost_message = end.prepared && absl::IsDataLoss(end.status);
  return {.event = IsLoss(end.status) || lost_message ? JobEvent::kLost : JobEvent::kRefused,
          .cause = std::string(end.status.message()),
          .end = end};
}

RunOutcome JobRunner::Run() {
  const auto refuse = [&](const absl::Status& status) { return OutcomeOf({.status = status}); };
  const absl::StatusOr<v1::Job> job = services_.journal.Get(job_id_);
  if (!job.ok()) return refuse(job.status());
  const absl::StatusOr<v1::JobSpec> spec = WithProtection(job->spec(), services_.least_protection, devices_);
  if (!spec.ok()) return refuse(spec.status());
  const absl::StatusOr<TrainingSpec> training = ResolveSpec(*spec, job_id_);
  if (!training.ok()) return refuse(training.status());
  if (const absl::Status allowed = RefuseEmulated(job->spec()); !allowed.ok()) return refuse(allowed);
  if (job->shape().empty()) {
    // Submitted under an older version: by this, devices are found that suit it when it is started again.
    (void)services_.journal.Change(job_id_, [&](v1::Job& j) { j.set_shape(ShapeKey(*training)); });
  }

  const Measurement::Result measured = Measure(*spec, *training);
  if (!measured.end.status.ok()) return OutcomeOf(measured.end);
  (void)services_.journal.Apply(job_id_, JobEvent::kProfiled, "");

  v1::PlanGrounds grounds;
  grounds.set_job_id(job_id_);
  *grounds.mutable_spec() = OnDevicesOf(measured.cluster, *spec);
  *grounds.mutable_cluster() = EncodeCluster(measured.cluster);
  // Under which it has run; what does not decode is none.
  Plan running;
  if (job->has_plan()) {
    if (absl::StatusOr<Plan> before = DecodePlan(job->plan().plan()); before.ok())
      running = *std::move(before);
  }
  const absl::StatusOr<PlannedJob> planned =
      PlanOn(measured.cluster, grounds.spec(), *training, Comparison::kNone, Limits(), measured.left_out,
             ParetoListing::kIfNeeded, running);
  if (const absl::Status wanted = StillWanted(); !wanted.ok()) return refuse(wanted);
  if (absl::IsResourceExhausted(planned.status()) || absl::IsDeadlineExceeded(planned.status())) {
    return {.event = JobEvent::kWaitForDevices, .cause = std::string(planned.status().message())};
  }
  if (!planned.ok()) return refuse(planned.status());
  (void)services_.journal.Apply(job_id_, JobEvent::kPlanned, "");
  services_.journal.Log(job_id_, "coordinator", absl::StrCat("plan: ", Describe(planned->plan)));
  if (planned->report.message_protection != MessageProtection::kNone) {
    services_.journal.Log(job_id_, "coordinator",
                          absl::StrCat("message_protection: ", NameOf(planned->report.message_protection)));
  }
  if (!running.units.empty()) {
    services_.journal.Log(job_id_, "coordinator",
                          running == planned->plan
                              ? "the plan is that of before"
                              : absl::StrCat(planned->kept_devices, " of ", RankCount(planned->plan),
                                             " devices keep the blocks that they had before"));
  }
  if (const std::vector<std::string> emulated = EmulatedInUse(planned->report); !emulated.empty()) {
    services_.journal.Log(
        job_id_, "coordinator",
        absl::StrCat("EMULATED: ", SomeNames(emulated),
                     " take time and compute nothing; losses of this attempt mean nothing"));
  }
  if (services_.planned) {
    services_.planned(DevicesOf(planned->plan));
  }
  return Train(*training, *planned, std::move(grounds));
}

v1::PrepareRequest JobRunner::SharedRequest(const v1::Job& job, const PlannedJob& planned,
                                            const std::string& checkpoint, bool other_run) {
  const double step_seconds = planned.prediction.step_seconds;
  v1::PrepareRequest request;
  request.set_attempt(job.launch());
  request.set_silence_seconds(std::max(kLeastSilenceSeconds, kStepsOfSilence * step_seconds));
  v1::TrainTask& train = *request.mutable_train();
  *train.mutable_spec() = job.spec();
  train.mutable_spec()->clear_plan();  // the task's own says it again
  if (const MessageProtection protection = planned.report.message_protection;
      protection != MessageProtection::kNone)
    train.mutable_spec()->mutable_communication()->set_message_protection(
        EncodeMessageProtection(protection));
  *train.mutable_plan() = EncodePlan(planned.plan);
  train.set_resume_from(checkpoint);
  train.set_resumes_other_run(other_run);
  train.set_job_id(job_id_);
  train.set_run_id(job.run_id());
  train.set_spec_fingerprint(FingerprintOf(job.spec()));
  train.set_data_fingerprint(job.data_fingerprint());
  train.set_predicted_step_seconds(step_seconds);
  train.set_job_attempt(job.attempt());
  for (const ReductionChoice& reduction : planned.reductions)
    *train.add_reductions() = EncodeReduction(reduction);
  return request;
}

absl::StatusOr<std::vector<AttemptTask>> JobRunner::TrainingTasks(const v1::Job& job,
                                                                  const PlannedJob& planned,
                                                                  const std::string& checkpoint,
                                                                  bool other_run) {
  std::vector<AttemptTask> tasks;
  const std::vector<std::string> names = DevicesOf(planned.plan);
  const auto shared = std::make_shared<const std::string>(
      SharedRequest(job, planned, checkpoint, other_run).SerializeAsString());
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const std::string& name = names[rank];
    const auto device = std::find_if(devices_.begin(), devices_.end(),
                                     [&](const ClusterDeviceLocation& d) { return FullName(d) == name; });
    if (device == devices_.end())
      return absl::InternalError(absl::StrCat("the plan uses ", name, ", which was not granted"));
    AttemptTask& task = tasks.emplace_back(
        AttemptTask{.device = name, .agent_address = device->agent_address, .shared_request = shared});
    task.request.set_task_id(absl::StrCat(job_id_, "/", job.launch(), "/", rank));
    task.request.set_device(device->device.description.name);
    task.request.mutable_train()->set_rank(static_cast<uint32_t>(rank));
  }
  return tasks;
}

// Nodes that read other data than the rest would train without a word.
absl::Status JobRunner::CheckData(const std::vector<AttemptTask>& tasks,
                                  const std::vector<v1::PrepareResponse>& responses) {
  int first = -1;
  for (int i = 0; i < static_cast<int>(responses.size()); ++i) {
    if (responses[i].data_fingerprint().empty()) continue;
    if (first < 0) first = i;
    if (responses[i].data_fingerprint() == responses[first].data_fingerprint()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("data: the nodes read different files under the same paths: ", tasks[first].device,
                     " has ", responses[first].data_fingerprint(), ", ", tasks[i].device, " has ",
                     responses[i].data_fingerprint()));
  }
  if (first < 0) return absl::OkStatus();
  const std::string& fingerprint = responses[first].data_fingerprint();
  std::string before;
  (void)services_.journal.Change(job_id_, [&](v1::Job& job) {
    before = job.data_fingerprint();
    if (before.empty()) job.set_data_fingerprint(fingerprint);
  });
  if (before.empty() || before == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data: the files have changed since the job began: it was ", before, ", and ",
                   tasks[first].device, " has ", fingerprint));
}

void JobRunner::NoteLaunch(const std::vector<AttemptTask>& tasks) {
  (void)services_.journal.Apply(job_id_, JobEvent::kLaunched, "", [&](v1::Job& job) {
    job.clear_tasks();
    for (const AttemptTask& task : tasks) {
      v1::LaunchedTask& launched = *job.add_tasks();
      launched.set_task_id(task.request.task_id());
      launched.set_device(task.device);
      launched.set_agent_address(task.agent_address);
    }
  });
}

RunOutcome JobRunner::Train(const TrainingSpec& training, const PlannedJob& planned,
                            v1::PlanGrounds grounds) {
  const v1::PlanReport report = EncodePlanReport(planned, PredictionErrors(services_.store));
  while (true) {
    const absl::StatusOr<uint64_t> launch = services_.store.NextAttempt();
    if (!launch.ok()) return OutcomeOf(EndOfStore(launch.status()));
    const absl::StatusOr<v1::Job> job = services_.journal.Change(job_id_, [&](v1::Job& j) {
      *j.mutable_plan() = report;
      j.set_attempt(j.attempt() + 1);
      j.set_launch(*launch);
      j.set_parameters(static_cast<uint64_t>(ModelElements(training.shape.model)));
      j.clear_measured_step_seconds();
      j.clear_launch_seconds();
    });
    if (!job.ok()) return OutcomeOf({.status = job.status()});
    grounds.set_launch(*launch);
    if (const absl::Status kept = services_.store.PutPlanGrounds(grounds); !kept.ok()) {
      services_.journal.Log(job_id_, "coordinator",
                            absl::StrCat("what it was planned with is not kept: ", kept.message()));
    }
    const absl::StatusOr<Beginning> beginning = BeginningOf(training, *job, unreadable_, services_.journal);
    if (!beginning.ok()) return OutcomeOf({.status = beginning.status()});
    if (!beginning->checkpoint.empty()) {
      services_.journal.Log(job_id_, "coordinator", absl::StrCat("going on from ", beginning->checkpoint));
    }
    const absl::StatusOr<std::vector<AttemptTask>> tasks =
        TrainingTasks(*job, planned, beginning->checkpoint, beginning->other_run);
    if (!tasks.ok()) return OutcomeOf({.status = tasks.status()});

    TraceCollector traces(job_id_, planned, training.shape);
    ProfileLearner learner(job_id_, planned, ShapeKey(training));
    const AttemptEnd end = RunAttempt(
        *tasks,
        {.prepared =
             [&](const std::vector<v1::PrepareResponse>& responses) { return CheckData(*tasks, responses); },
         .launched = [&] { NoteLaunch(*tasks); },
         .event =
             [&](int unit, const v1::WorkerEvent& event) {
               OnEvent((*tasks)[unit].device, job->attempt(), report.emulated(), unit, event);
               const std::optional<v1::Trace> trace = CollectTrace(traces, unit, event);
               if (!trace || event.measured().on_request()) return;
               MutexLock lock(collecting_);
               (void)services_.store.PutTrace(*trace);
               for (const std::string& line : NoteMeasuredStep(services_.store, learner, *trace)) {
                 services_.journal.Log(job_id_, "coordinator", line);
               }
             }});
    EndTrace(job->attempt(), end);
    if (!end.left) NotePredictionOutcome(services_.store, services_.journal, job_id_);
    // Workers read every byte of the checkpoint; one that is damaged is passed over for the one before.
    const bool unreadable = absl::IsDataLoss(end.status) && !end.prepared && !beginning->checkpoint.empty() &&
                            absl::StrContains(end.status.message(), beginning->checkpoint);
    if (!unreadable || beginning->other_run) return OutcomeOf(end);
    services_.journal.Log(
        job_id_, "coordinator",
        absl::StrCat("checkpoint ", beginning->checkpoint, " is passed over: ", end.status.message()));
    unreadable_.insert(beginning->checkpoint);
  }
}

RunOutcome JobRunner::TakeUp(const v1::Job& job, absl::Duration patience) {
  std::vector<AttemptTask> tasks;
  for (const v1::LaunchedTask& launched : job.tasks()) {
    AttemptTask& task = tasks.emplace_back(AttemptTask{.device = launched.device(),
                                                       .agent_address = launched.agent_address(),
                                                       .after_event = launched.seen_event()});
    task.request.set_task_id(launched.task_id());
  }
  AttemptRun run(services_.agents, tasks);
  // Without it, as of a model whose files are gone, steps cannot be traced; training goes on.
  std::optional<TraceCollector> traces;
  const absl::StatusOr<TrainingSpec> training = ResolveSpec(job.spec(), job_id_);
  const absl::StatusOr<Plan> plan = DecodePlan(job.plan().plan());
  if (training.ok() && plan.ok()) traces.emplace(job_id_, *plan, training->shape);
  bool taken_up = false;
  AttemptEnd end = WhileUnderWay(run, /*trains=*/true, [&] {
    taken_up = true;
    return run.TakeUp({.event =
                           [&](int unit, const v1::WorkerEvent& event) {
                             OnEvent(tasks[unit].device, job.attempt(), job.plan().emulated(), unit, event);
                             if (traces) (void)CollectTrace(*traces, unit, event);
                           }},
                      patience);
  });
  {
    MutexLock lock(mutex_);
    end.left |= !taken_up && leaving_ && !aborted_;  // it trains all the same
  }
  EndTrace(job.attempt(), end);
  if (!end.left) NotePredictionOutcome(services_.store, services_.journal, job_id_);
  return OutcomeOf(end);
}

absl::Status JobRunner::FeedTrace(const std::shared_ptr<LiveTrace>& live) {
  MutexLock lock(mutex_);
  if (training_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat("job ", job_id_, " does not run"));
  if (live_trace_ != nullptr && !live_trace_->closed())
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id_, " is being traced by another request; ask again when that has ended"));
  live_trace_ = live;
  return absl::OkStatus();
}

std::shared_ptr<LiveTrace> JobRunner::OpenTrace() {
  MutexLock lock(mutex_);
  if (live_trace_ != nullptr && live_trace_->closed()) live_trace_ = nullptr;
  return live_trace_;
}

std::optional<v1::Trace> JobRunner::CollectTrace(TraceCollector& traces, int rank,
                                                 const v1::WorkerEvent& event) {
  if (event.has_trace_finished()) {
    if (const auto live = OpenTrace()) live->Finished(rank, event.trace_finished().last_step());
  }
  if (!event.has_measured()) return std::nullopt;
  MutexLock lock(collecting_);
  std::optional<v1::Trace> trace = traces.Add(rank, event.measured());
  if (!trace) return std::nullopt;
  if (const auto live = OpenTrace()) live->Add(*trace);
  return trace;
}

void JobRunner::EndTrace(uint32_t attempt, const AttemptEnd& end) {
  const auto live = OpenTrace();
  if (live == nullptr) return;
  const RunOutcome outcome = OutcomeOf(end);
  if (outcome.left) return live->End(absl::UnavailableError("the coordinator is stopping"));
  const std::string why = outcome.cause.empty() ? "" : absl::StrCat(": ", outcome.cause);
  if (outcome.event == JobEvent::kCancelled)
    return live->End(absl::CancelledError(absl::StrCat("job ", job_id_, " was cancelled", why)));
  live->End(absl::AbortedError(absl::StrCat("attempt ", attempt, " of job ", job_id_, " has ended", why)));
}

void JobRunner::OnEvent(const std::string& device, uint32_t attempt, bool emulated, int task,
                        const v1::WorkerEvent& event) {
  JobJournal& journal = services_.journal;
  bool is_first_step = false;
  {
    MutexLock lock(mutex_);
    heard_ = Now();
  }
  switch (event.event_case()) {
    case v1::WorkerEvent::kStep: {
      v1::StepMetrics step = event.step();
      step.set_attempt(attempt);
      step.set_emulated(emulated);
      if (step.at_seconds() == 0) step.set_at_seconds(UnixSecondsNow());
      journal.AddStep(job_id_, step);
      (void)journal.Look(job_id_, [&](const v1::Job& job) { is_first_step = job.launch_seconds() == 0; });
      break;
    }
    case v1::WorkerEvent::kValidation:
      journal.AddValidation(job_id_, event.validation());
      break;
    case v1::WorkerEvent::kCheckpoint:
      (void)journal.Change(job_id_, [&](v1::Job& job) {
        job.set_checkpoint_path(event.checkpoint().path());
        job.set_checkpoint_step(event.checkpoint().step());
        job.clear_checkpoint_problem();
        job.set_restarts_without_progress(0);
        CountCheckpointTime(job, event.checkpoint());
      });
      journal.Log(
          job_id_, device,
          absl::StrCat("checkpoint of step ", event.checkpoint().step(), " at ", event.checkpoint().path()));
      break;
    case v1::WorkerEvent::kCheckpointFailed:
      (void)journal.Change(job_id_, [&](v1::Job& job) {
        job.set_checkpoint_problem(ValidUtf8(absl::StrCat("step ", event.checkpoint_failed().step(), ": ",
                                                          event.checkpoint_failed().reason())));
        CountCheckpointTime(job, event.checkpoint_failed());
      });
      journal.Log(job_id_, device,
                  absl::StrCat("no checkpoint of step ", event.checkpoint_failed().step(), ": ",
                               event.checkpoint_failed().reason(), "; training goes on"));
      break;
    case v1::WorkerEvent::kLog:
      journal.Log(job_id_, device, event.log());
      break;
    default:
      break;
  }
  if (is_first_step) {
    const double seconds = absl::ToDoubleSeconds(Now() - granted_);
    (void)journal.Change(job_id_, [&](v1::Job& job) { job.set_launch_seconds(seconds); });
  }
  if (event.number() > 0) journal.Seen(job_id_, task, event.number());
}

}  // namespace medley

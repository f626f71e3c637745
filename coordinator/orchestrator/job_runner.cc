#include "coordinator/orchestrator/job_runner.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_beginning.h"
#include "coordinator/orchestrator/job_launch.h"
#include "coordinator/orchestrator/link_measurement.h"
#include "coordinator/orchestrator/prediction_record.h"
#include "coordinator/orchestrator/protection_terms.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/wire/plan_report_codec.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/stop_after.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/log/log.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

// Measuring may compile kernels, which takes minutes and shows no progress.
constexpr double kMeasuringSilenceSeconds = 900;

}  // namespace

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
      {.spec = spec, .training = training, .devices = devices_, .stop = &stop_planning()});
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
  const StopAfter limit(stop_planning(), time_limit);
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

absl::StatusOr<JobRunner::PlanBesideOthers> JobRunner::PlanBeside(
    const v1::JobSpec& asked, const std::vector<ClusterDeviceLocation>& beside, const JobSoFar& so_far) {
  std::vector<ClusterDeviceLocation> together = devices_;
  together.insert(together.end(), beside.begin(), beside.end());
  ASSIGN_OR_RETURN(const v1::JobSpec spec, WithProtection(asked, services_.least_protection, together));
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(spec, ""));
  if (!devices_.empty()) {
    const Measurement::Result measured = Measure(spec, training);
    if (absl::IsResourceExhausted(measured.end.status)) {
      together = beside;  // none of the others has room for any part of it
    } else {
      RETURN_IF_ERROR(measured.end.status);
      std::set<std::string> left_out;
      for (const LeftOutDevice& device : measured.left_out) left_out.insert(device.device);
      std::erase_if(together,
                    [&](const ClusterDeviceLocation& device) { return left_out.contains(FullName(device)); });
    }
  }
  Cluster cluster;
  RETURN_IF_ERROR(
      MeasurementOf().Known({.spec = spec, .training = training, .devices = together}, cluster).status);
  // Links to devices that are in use cannot be measured now.
  std::vector<LinkCost> costs;
  for (const ClusterLink& link : cluster.links) costs.push_back(link.cost);
  for (const ClusterLinkClass& link : cluster.link_classes) costs.push_back(link.cost);
  cluster.default_link = SupposedLink(costs);
  const v1::JobSpec on_these = OnDevicesOf(cluster, spec);
  absl::StatusOr<PlannedJob> planned = PlanOn(cluster, on_these, training, Comparison::kNone, Limits(),
                                              /*left_out=*/{}, ParetoListing::kIfNeeded, so_far);
  RETURN_IF_ERROR(StillWanted());
  RETURN_IF_ERROR(planned.status());
  PlanBesideOthers result{.planned = *std::move(planned)};
  if (so_far.plan.units.empty()) return result;
  const absl::StatusOr<PlannedJob> running = PlannedUnder(cluster, on_these, training, so_far.plan);
  if (running.ok()) result.running_step_seconds = running->prediction.step_seconds;
  return result;
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

RunOutcome JobRunner::Run() {
  const auto refuse = [&](const absl::Status& status) { return OutcomeOf({.status = status}); };
  const auto wait = [](const absl::Status& status) {
    return RunOutcome{.event = JobEvent::kWaitForDevices, .cause = std::string(status.message())};
  };
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
  if (absl::IsResourceExhausted(measured.end.status) && !spec->has_plan() && StillWanted().ok())
    return wait(measured.end.status);  // larger devices may come, or be free again
  if (!measured.end.status.ok()) return OutcomeOf(measured.end);
  (void)services_.journal.Apply(job_id_, JobEvent::kProfiled, "");

  v1::PlanGrounds grounds;
  grounds.set_job_id(job_id_);
  *grounds.mutable_spec() = OnDevicesOf(measured.cluster, *spec);
  *grounds.mutable_cluster() = EncodeCluster(measured.cluster);
  const JobSoFar so_far = SoFarOf(*job, job->checkpoint_step());
  const absl::StatusOr<PlannedJob> planned =
      PlanOn(measured.cluster, grounds.spec(), *training, Comparison::kNone, Limits(), measured.left_out,
             ParetoListing::kIfNeeded, so_far);
  if (const absl::Status wanted = StillWanted(); !wanted.ok()) return refuse(wanted);
  if (absl::IsResourceExhausted(planned.status()) || absl::IsDeadlineExceeded(planned.status()))
    return wait(planned.status());
  if (!planned.ok()) return refuse(planned.status());
  (void)services_.journal.Apply(job_id_, JobEvent::kPlanned, "");
  services_.journal.Log(job_id_, "coordinator", absl::StrCat("plan: ", Describe(planned->plan)));
  if (!planned->late.empty()) {
    services_.journal.Log(
        job_id_, "coordinator",
        absl::StrCat(planned->late, "; it goes on under that, which is sooner than waiting"));
  }
  if (planned->report.message_protection != MessageProtection::kNone) {
    services_.journal.Log(job_id_, "coordinator",
                          absl::StrCat("message_protection: ", NameOf(planned->report.message_protection)));
  }
  if (!so_far.plan.units.empty()) {
    services_.journal.Log(job_id_, "coordinator",
                          so_far.plan == planned->plan
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
    const absl::StatusOr<std::vector<AttemptTask>> tasks = TrainingTasks(*job, planned, *beginning, devices_);
    if (!tasks.ok()) return OutcomeOf({.status = tasks.status()});

    TracedSteps traced{TraceCollector(job_id_, planned, training.shape),
                       ProfileLearner(job_id_, planned, ShapeKey(training))};
    const AttemptEnd end = RunAttempt(
        *tasks,
        {.prepared =
             [&](const std::vector<v1::PrepareResponse>& responses) {
               return CheckData(services_.journal, job_id_, *tasks, responses);
             },
         .launched = [&] { NoteLaunch(services_.journal, job_id_, *tasks); },
         .event =
             [&](int unit, const v1::WorkerEvent& event) {
               OnEvent({(*tasks)[unit].device, unit, job->attempt(), report.emulated()}, event, &traced);
             }});
    NoteEnd(job->attempt(), end);
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

std::optional<JobRunner::TracedSteps> JobRunner::TracedAgain(const v1::Job& job) {
  absl::StatusOr<v1::PlanGrounds> grounds = services_.store.GetPlanGrounds(job_id_);
  if (grounds.ok() && grounds->launch() != job.launch())
    grounds = absl::NotFoundError("what this attempt was planned with was not kept");
  const absl::StatusOr<TrainingSpec> training =
      ResolveSpec(grounds.ok() ? grounds->spec() : job.spec(), job_id_);
  const absl::StatusOr<Plan> plan = DecodePlan(job.plan().plan());
  if (!training.ok() || !plan.ok()) return std::nullopt;
  const absl::StatusOr<PlannedJob> planned =
      grounds.ok() ? PlannedFrom(*grounds, *training, *plan) : absl::StatusOr<PlannedJob>(grounds.status());
  if (planned.ok()) {
    return TracedSteps{TraceCollector(job_id_, *planned, training->shape),
                       ProfileLearner(job_id_, *planned, ShapeKey(*training))};
  }
  services_.journal.Log(
      job_id_, "coordinator",
      absl::StrCat("nothing is learnt from this attempt's steps from now on: ", planned.status().message()));
  return TracedSteps{TraceCollector(job_id_, *plan, training->shape), std::nullopt};
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
  bool taken_up = false;
  // Whoever wants it to end while it is planned again reaches the tasks, too.
  AttemptEnd end = WhileUnderWay(run, /*trains=*/true, [&] {
    taken_up = true;
    std::optional<TracedSteps> traced = TracedAgain(job);
    return run.TakeUp({.event =
                           [&](int unit, const v1::WorkerEvent& event) {
                             OnEvent({tasks[unit].device, unit, job.attempt(), job.plan().emulated()}, event,
                                     traced ? &*traced : nullptr);
                           }},
                      patience);
  });
  end.left |= !taken_up && Leaving();  // it trains all the same
  NoteEnd(job.attempt(), end);
  return OutcomeOf(end);
}

absl::Status JobRunner::FeedTrace(const std::shared_ptr<LiveTrace>& live) {
  MutexLock lock(feeding_);
  if (!Trains()) return absl::FailedPreconditionError(absl::StrCat("job ", job_id_, " does not run"));
  if (live_trace_ != nullptr && !live_trace_->closed())
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id_, " is being traced by another request; ask again when that has ended"));
  live_trace_ = live;
  return absl::OkStatus();
}

std::shared_ptr<LiveTrace> JobRunner::OpenTrace() {
  MutexLock lock(feeding_);
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

void JobRunner::OnEvent(const EventSource& source, const v1::WorkerEvent& event, TracedSteps* traced) {
  Heard();
  NoteWorkerEvent(services_.journal, job_id_, source, granted_, event);
  if (traced == nullptr) return;
  const std::optional<v1::Trace> trace = CollectTrace(traced->traces, source.task, event);
  if (!trace || event.measured().on_request() || !traced->learner) return;
  MutexLock lock(collecting_);
  (void)services_.store.PutTrace(*trace);
  for (const std::string& line : NoteMeasuredStep(services_.store, *traced->learner, *trace)) {
    services_.journal.Log(job_id_, "coordinator", line);
    ++lessons_;
  }
}

void JobRunner::NoteEnd(uint32_t attempt, const AttemptEnd& end) {
  if (const auto live = OpenTrace()) live->End(EndOfTrace(attempt, OutcomeOf(end)));
  if (!end.left) NotePredictionOutcome(services_.store, services_.journal, job_id_);
}

absl::Status JobRunner::EndOfTrace(uint32_t attempt, const RunOutcome& outcome) const {
  if (outcome.left) return absl::UnavailableError("the coordinator is stopping");
  const std::string why = outcome.cause.empty() ? "" : absl::StrCat(": ", outcome.cause);
  if (outcome.event == JobEvent::kCancelled)
    return absl::CancelledError(absl::StrCat("job ", job_id_, " was cancelled", why));
  return absl::AbortedError(absl::StrCat("attempt ", attempt, " of job ", job_id_, " has ended", why));
}

}  // namespace medley

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/worker/communication.h"
#include "agent/worker/task.h"
#include "agent/worker/traffic.h"
#include "runtime/base/clock.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/engine/events/tensorboard_writer.h"
#include "runtime/engine/exec/file_window_source.h"
#include "runtime/engine/exec/plan_peers.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "runtime/engine/exec/step_executor.h"
#include "runtime/engine/exec/trainer.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/log/log.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/reduction_codec.h"

namespace medley {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(30);
constexpr absl::Duration kCloseTime = absl::Seconds(2);
constexpr absl::Duration kAnswerTime = absl::Seconds(2);

// Ranks that hold neither end of the model see no tokens.
class NoWindows final : public WindowSource {
 public:
  absl::Status Read(Purpose, int64_t, int, absl::Span<int32_t>) override {
    return absl::InternalError("this rank holds neither the embedding nor the head");
  }
};

struct TrainingSetup {
  TrainingSpec spec;
  Plan plan;
  std::vector<ReductionChoice> reductions;
  Rank rank = 0;
  StepProgram program;  // of a training step
  int64_t done_steps = 0;
  std::optional<LossScale> loss_scale;  // of the checkpoint that it goes on from
  RunIdentity identity;                 // data_fingerprint: of this rank's own files
  std::string tensorboard;              // the job's own folder of events; empty: none
  std::string resume_from;              // a checkpoint's directory; empty: from the start
  bool resumes_other_run = false;
  // The data fingerprint of the ranks that read data, as the coordinator knows it; empty: not yet.
  std::string known_data_fingerprint;
  absl::Duration stall_timeout;
};

// Shorter waits for a peer are no sign of anything.
constexpr absl::Duration kLeastStallTimeout = absl::Minutes(2);
constexpr double kStallSteps = 20;

// Which steps' instruction times are reported: after the first, which allocates, as many as a profile is
// corrected by, so that what comes next is planned with the speed that devices have now; then one now and
// then.
constexpr int kTracedAtFirst = 15, kTracedEvery = 25;
bool IsTraced(int64_t step, int64_t done_steps) {
  return (step >= done_steps + 2 && step < done_steps + 2 + kTracedAtFirst) || step % kTracedEvery == 0;
}

v1::WorkerEvent StepEvent(const TrainingSetup& setup, int64_t step, const StepOutcome& outcome) {
  v1::WorkerEvent event;
  v1::StepMetrics& metrics = *event.mutable_step();
  metrics.set_step(static_cast<uint32_t>(step));
  metrics.set_loss(outcome.loss);
  metrics.set_gradient_norm(outcome.gradient_norm);
  metrics.set_learning_rate(outcome.learning_rate);
  metrics.set_step_seconds(outcome.seconds);
  metrics.set_tokens(static_cast<uint64_t>(setup.spec.shape.global_batch_sequences) *
                     setup.spec.shape.sequence);
  metrics.set_skipped(outcome.skipped);
  if (outcome.loss_scale != 1) metrics.set_loss_scale(static_cast<uint64_t>(outcome.loss_scale));
  metrics.set_at_seconds(UnixSecondsNow());
  return event;
}

ScalarEvent CurvesOf(const v1::StepMetrics& step) {
  ScalarEvent event{.step = step.step(),
                    .at_seconds = step.at_seconds(),
                    .values = {{"train/loss", step.loss()},
                               {"train/gradient_norm", step.gradient_norm()},
                               {"train/learning_rate", step.learning_rate()},
                               {"speed/step_seconds", step.step_seconds()}}};
  if (step.step_seconds() > 0)
    event.values.emplace_back("speed/tokens_per_second",
                              static_cast<double>(step.tokens()) / step.step_seconds());
  if (step.loss_scale() > 0) event.values.emplace_back("train/loss_scale", step.loss_scale());
  return event;
}

v1::WorkerEvent MeasuredEvent(int64_t step, const StepOutcome& outcome, const Transport& transport) {
  v1::WorkerEvent event;
  v1::MeasuredStep& measured = *event.mutable_measured();
  measured.set_step(static_cast<uint32_t>(step));
  measured.set_started_at_seconds(absl::ToDoubleSeconds(outcome.started_at - absl::UnixEpoch()));
  for (const MeasuredTime& time : outcome.times) {
    measured.add_start_seconds(time.start_seconds);
    measured.add_end_seconds(time.end_seconds);
  }
  AddTraffic(transport, measured);
  return event;
}

class TrainTask final : public WorkerTask {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerTask>> Prepare(const v1::PrepareRequest& request,
                                                             const WorkerSite& site) {
    CurrentPhase& phase = CurrentPhase::OfProcess();
    std::unique_ptr<TrainTask> task(new TrainTask(site));
    phase.Enter("reading the task");
    RETURN_IF_ERROR(task->ReadRequest(request));
    phase.Enter("opening the device");
    ASSIGN_OR_RETURN(task->device_, OpenDevice(site.device));
    phase.Enter("opening the data");
    RETURN_IF_ERROR(task->OpenData());
    phase.Enter("trying the checkpoint directory");
    RETURN_IF_ERROR(task->TakeCheckpointFolder());
    phase.Enter("loading the model");
    RETURN_IF_ERROR(task->LoadModel());
    phase.Enter("ordering the data");
    // With billions of windows that takes minutes, for which other ranks would not wait within a step.
    task->windows_->Prepare(task->setup_.done_steps);
    phase.Enter("opening the network");
    task->peers_ =
        PlanPeers(task->setup_.plan, task->setup_.program, task->setup_.spec, task->setup_.reductions);
    ASSIGN_OR_RETURN(task->communicator_,
                     MakeCommunicator(request, site, task->setup_.rank, RankCount(task->setup_.plan),
                                      task->peers_, task->setup_.spec.communication.message_protection));
    if (task->trace_window_ != nullptr) task->trace_window_->Begin(task->setup_.done_steps + 1);
    return task;
  }

  std::string data_plane_address() const override { return communicator_->address(); }
  std::vector<int> peers() const override { return peers_; }
  Bytes allocated() const override { return device_.queue->allocated(); }
  std::string data_fingerprint() const override { return setup_.identity.data_fingerprint; }
  std::optional<int64_t> stopped_at_step() const override { return end_.stopped_at_step; }

  absl::Status Run(const std::vector<std::string>& addresses,
                   const std::function<void(const v1::WorkerEvent&)>& report) override {
    const absl::Status status = TrainConnected(addresses, report);
    if (status.ok()) {
      (void)communicator_->Close(Now() + kCloseTime);  // all ranks were through by the last sum
    } else {
      communicator_->GiveUp(std::string(status.message()), Now() + kCloseTime);
    }
    return status;
  }

 private:
  explicit TrainTask(const WorkerSite& site)
      : finish_early_(site.finish_early),
        trace_window_(site.trace_window),
        allocated_bytes_(site.allocated_bytes) {}

  // What ends now took all the time since the report before it: a rank does one thing after another.
  template <typename Message>
  void SayTime(Message& message) {
    const absl::Time now = Now();
    message.set_seconds(absl::ToDoubleSeconds(now - std::exchange(reported_, now)));
    message.set_at_seconds(UnixSecondsNow());
  }

  StepExecutor::Options ExecutorOptions() {
    return {.spec = setup_.spec,
            .plan = setup_.plan,
            .rank = setup_.rank,
            .loss_scale = setup_.loss_scale,
            .reductions = setup_.reductions,
            .stall_timeout = setup_.stall_timeout,
            .ask =
                [this](const std::vector<int>& ranks) {
                  return communicator_->AskAll(ranks, "activity", Now() + kAnswerTime);
                },
            .warn = [](const std::string& report) { LogWarning(absl::StrCat("waiting for long: ", report)); },
            .tell = [](const std::string& words) { LogInfo(words); },
            .wishes_to_finish = [this] { return finish_early_ != nullptr && finish_early_->load(); }};
  }

  absl::Status TrainConnected(const std::vector<std::string>& addresses,
                              const std::function<void(const v1::WorkerEvent&)>& report) {
    StepExecutor executor(ExecutorOptions(), *shard_, communicator_->transport(), *windows_);
    communicator_->OnQuestion([activity = executor.activity()](int, const std::string&) {
      return activity->Describe(Now());  // it outlives the executor
    });
    OpenEvents();
    CurrentPhase::OfProcess().Enter("connecting to the other ranks", /*waits_for_peers=*/true);
    RETURN_IF_ERROR(
        Annotate(communicator_->Connect(addresses, Now() + kConnectTime), "connecting to the other ranks"));
    CurrentPhase::OfProcess().DescribeBy([activity = executor.activity()]() -> CurrentPhase::Phase {
      return {activity->Describe(Now()), activity->WaitsForPeers()};
    });
    const absl::StatusOr<TrainingEnd> end =
        Train({.spec = setup_.spec, .identity = setup_.identity, .done_steps = setup_.done_steps}, *shard_,
              executor, Reports(report));
    CurrentPhase::OfProcess().Enter("ending");
    if (end.ok()) end_ = *end;
    return end.status();
  }

  absl::Status ReadRequest(const v1::PrepareRequest& request) {
    const v1::TrainTask& train = request.train();
    std::optional<ModelConfig> config;
    if (!train.spec().model().hugging_face().empty()) {
      ASSIGN_OR_RETURN(config, ReadModelConfig(train.spec().model().hugging_face()));
    }
    ASSIGN_OR_RETURN(setup_.spec, DecodeJobSpec(train.spec(), train.job_id(), config));
    ASSIGN_OR_RETURN(setup_.plan, DecodePlan(train.plan()));
    setup_.rank = static_cast<int>(train.rank());
    std::vector<std::string> problems;  // whether it fits is for the device to say
    for (const PlanViolation& violation : CheckPlanForm(setup_.plan, setup_.spec.shape)) {
      problems.push_back(violation.detail);
    }
    if (!problems.empty())
      return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(problems, "; ")));
    if (setup_.rank >= RankCount(setup_.plan)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank: ", setup_.rank.value(), "; the plan has ", RankCount(setup_.plan)));
    }
    setup_.program = CompileStep(setup_.plan, setup_.rank, setup_.spec.shape, Purpose::kTrain);
    ASSIGN_OR_RETURN(setup_.reductions, DecodeReductions(train));
    if (!train.spec().tensorboard().empty())
      setup_.tensorboard = absl::StrCat(train.spec().tensorboard(), "/", train.job_id());
    setup_.identity = {.owner = {.run = train.run_id(), .job = train.job_id(), .launch = request.attempt()},
                       .spec_fingerprint = train.spec_fingerprint()};
    setup_.resume_from = train.resume_from();
    setup_.resumes_other_run = train.resumes_other_run();
    setup_.known_data_fingerprint = train.data_fingerprint();
    setup_.stall_timeout =
        std::max(kLeastStallTimeout, absl::Seconds(kStallSteps * train.predicted_step_seconds()));
    return absl::OkStatus();
  }

  // Finds out now, rather than at the first checkpoint, whether this rank can write there, and makes the
  // folder the run's.
  absl::Status TakeCheckpointFolder() {
    const std::string& root = setup_.spec.checkpoint_directory;
    if (root.empty() || device_.emulated) return absl::OkStatus();
    const bool writes = !SavedSegments(setup_.plan, setup_.rank, setup_.spec.shape.model).empty();
    if (!writes && setup_.rank != 0) return absl::OkStatus();
    const absl::StatusOr<std::optional<RunOwner>> owner = ReadRunOwner(root);
    const bool launched_before =
        owner.ok() && owner->has_value() && (*owner)->run == setup_.identity.owner.run;
    absl::Status taken = TryFolder(root);
    if (taken.ok() && setup_.rank == 0) {
      taken = ClaimFolder(root, setup_.identity.owner, setup_.resumes_other_run ? setup_.resume_from : "");
      // This error is about who owns the folder: its message names the field.
      if (absl::IsFailedPrecondition(taken)) return taken;
    }
    if (taken.ok()) return absl::OkStatus();
    if (absl::IsResourceExhausted(taken) && launched_before) {
      // A run that trains on a full disk is not ended for that, and neither is one that is launched anew.
      LogWarning(
          absl::StrCat("checkpoint.directory: ", taken.message(), "; checkpoints cannot be written for now"));
      return absl::OkStatus();
    }
    // Whether it is worth another try elsewhere: a file server that is away is, what the user gave is not.
    return absl::Status(
        absl::IsUnavailable(taken) ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition,
        absl::StrCat("checkpoint.directory: ", taken.message()));
  }

  // What cannot be written costs events and never the training.
  void OpenEvents() {
    if (setup_.rank != 0 || setup_.tensorboard.empty()) return;
    absl::StatusOr<std::unique_ptr<TensorBoardWriter>> events =
        TensorBoardWriter::Open(setup_.tensorboard, setup_.done_steps, UnixSecondsNow());
    if (events.ok()) {
      events_ = *std::move(events);
    } else {
      LogWarning(absl::StrCat("tensorboard: ", events.status().message()));
    }
  }

  void AddEvent(const ScalarEvent& event) {
    if (events_ == nullptr) return;
    const absl::Status written = events_->Write(event);
    if (written.ok()) return;
    LogWarning(absl::StrCat("tensorboard: ", written.message(), "; no more events are written"));
    events_ = nullptr;
  }

  absl::Status LoadModel() {
    const TrainingSpec& spec = setup_.spec;
    ASSIGN_OR_RETURN(shard_, ModelShard::Create(device_, ShardOptionsOf(setup_.plan, setup_.program,
                                                                        spec.shape, spec.precision)));
    if (device_.emulated) return absl::OkStatus();  // there is nothing that could be loaded
    if (!setup_.resume_from.empty()) return Resume();
    if (!spec.hugging_face_directory.empty()) return LoadHuggingFace(spec.hugging_face_directory, *shard_);
    return shard_->arena().Initialise(spec.seed);
  }

  absl::Status Resume() {
    const std::string& directory = setup_.resume_from;
    const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(directory);
    if (absl::IsNotFound(manifest.status()) && !setup_.resumes_other_run) {
      // It was complete when the job was told of it, so more likely this node lacks the file system than anyone
      // the checkpoint: no reason to pass it over.
      return absl::UnavailableError(
          absl::StrCat("checkpoint ", directory, " is not seen here: ", manifest.status().message(),
                       "; checkpoint.directory must be shared by all nodes of the job"));
    }
    if (!manifest.ok()) return Annotate(manifest.status(), absl::StrCat("checkpoint ", directory));
    RETURN_IF_ERROR(CheckRun(*manifest));
    RETURN_IF_ERROR(CheckData(*manifest));
    setup_.done_steps = manifest->step;
    if (setup_.spec.precision == Precision::kF16) setup_.loss_scale = manifest->loss_scale;
    return LoadCheckpoint(*manifest, setup_.spec, *shard_);
  }

  // That the checkpoint is the one that was meant.
  absl::Status CheckRun(const CheckpointManifest& manifest) const {
    const std::string& run = setup_.identity.owner.run;
    if (setup_.resumes_other_run) {
      if (manifest.step < setup_.spec.steps) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("steps: ", setup_.spec.steps, "; checkpoint.resume_from: ", manifest.directory,
                       " has ", manifest.step, " done already; give more steps"));
    }
    if (run.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool own, IsOfRun(manifest, setup_.spec.checkpoint_directory, run));
    if (own) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", manifest.directory,
                                                      " is of another run (job ", manifest.job,
                                                      "), not of this one; continue it with "
                                                      "checkpoint.resume_from"));
  }

  // That the data is what the checkpoint was trained on.
  absl::Status CheckData(const CheckpointManifest& manifest) const {
    const std::string& own = setup_.identity.data_fingerprint;
    const std::string& now = own.empty() ? setup_.known_data_fingerprint : own;
    if (now.empty() || manifest.data_fingerprint.empty() || now == manifest.data_fingerprint)
      return absl::OkStatus();
    const std::string difference =
        absl::StrCat("data.train: checkpoint ", manifest.directory, " was trained on other data (",
                     manifest.data_fingerprint, ") than is there now (", now, ")");
    if (!setup_.resumes_other_run) return absl::FailedPreconditionError(difference);
    LogWarning(difference);
    return absl::OkStatus();
  }

  absl::Status OpenData() {
    const ModelConfig& config = setup_.spec.shape.model;
    const Unit& unit = setup_.plan.units[setup_.program.unit];
    if (!Holds(unit, config.embedding_block()) && !Holds(unit, config.head_block())) {
      windows_ = std::make_unique<NoWindows>();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<FileWindowSource> windows, FileWindowSource::Open(setup_.spec));
    setup_.identity.data_fingerprint = windows->data_fingerprint();
    windows_ = std::move(windows);
    return absl::OkStatus();
  }

  TrainerReports Reports(const std::function<void(const v1::WorkerEvent&)>& report) {
    TrainerReports reports;
    const bool speaks = setup_.rank == 0;  // losses and checkpoints are the same everywhere
    reports.step = [this, report, speaks](int64_t step, const StepOutcome& outcome) {
      const Bytes allocated = device_.queue->allocated();
      if (allocated_bytes_ != nullptr) *allocated_bytes_ = static_cast<uint64_t>(allocated.value);
      reported_ = Now();
      if (speaks) {
        const v1::WorkerEvent event = StepEvent(setup_, step, outcome);
        report(event);
        AddEvent(CurvesOf(event.step()));
      }
      const TraceWindow::Verdict asked =
          trace_window_ == nullptr ? TraceWindow::Verdict() : trace_window_->StepEnded(step);
      const bool is_regular = IsTraced(step, setup_.done_steps);
      // Steps with other ends than those between others have nothing that a prediction could be held against.
      if ((is_regular || asked.traced) && !outcome.times.empty()) {
        v1::WorkerEvent event = MeasuredEvent(step, outcome, communicator_->transport());
        event.mutable_measured()->set_on_request(!is_regular);
        report(event);
      }
      if (!asked.finished) return;
      v1::WorkerEvent finished;
      finished.mutable_trace_finished()->set_last_step(static_cast<uint32_t>(step));
      report(finished);
    };
    reports.warning = [](const std::string& text) { LogWarning(text); };
    if (!speaks) return reports;
    reports.validation = [this, report](int64_t step, double loss) {
      AddEvent({.step = step, .at_seconds = UnixSecondsNow(), .values = {{"validation/loss", loss}}});
      v1::WorkerEvent event;
      event.mutable_validation()->set_step(static_cast<uint32_t>(step));
      event.mutable_validation()->set_loss(loss);
      SayTime(*event.mutable_validation());
      report(event);
    };
    reports.checkpoint_failed = [this, report](int64_t step, const std::string& reason) {
      v1::WorkerEvent event;
      event.mutable_checkpoint_failed()->set_step(static_cast<uint32_t>(step));
      event.mutable_checkpoint_failed()->set_reason(ValidUtf8(reason));
      SayTime(*event.mutable_checkpoint_failed());
      report(event);
    };
    reports.checkpoint = [this, report](int64_t step, const std::string& directory) {
      v1::WorkerEvent event;
      event.mutable_checkpoint()->set_step(static_cast<uint32_t>(step));
      event.mutable_checkpoint()->set_path(directory);
      SayTime(*event.mutable_checkpoint());
      report(event);
    };
    return reports;
  }

  const std::atomic<bool>* const finish_early_;   // null: nobody asks
  TraceWindow* const trace_window_;               // null: nobody asks
  std::atomic<uint64_t>* const allocated_bytes_;  // null: nobody asks
  absl::Time reported_ = Now();                   // the newest step, validation or checkpoint
  TrainingSetup setup_;
  TrainingEnd end_;
  Device device_;
  std::unique_ptr<ModelShard> shard_;
  std::unique_ptr<WindowSource> windows_;
  std::vector<int> peers_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<TensorBoardWriter> events_;  // null: none are asked for, or none can be written
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareTraining(const v1::PrepareRequest& request,
                                                            const WorkerSite& site) {
  return TrainTask::Prepare(request, site);
}

}  // namespace medley

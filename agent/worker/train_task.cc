#include <spdlog/spdlog.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/worker/communication.h"
#include "agent/worker/task.h"
#include "agent/worker/traffic.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/codec/job_codec.h"
#include "runtime/codec/plan_codec.h"
#include "runtime/codec/reduction_codec.h"
#include "runtime/exec/file_window_source.h"
#include "runtime/exec/shard_checkpoint.h"
#include "runtime/exec/trainer.h"
#include "runtime/exec/unit_executor.h"
#include "runtime/model/model_shard.h"
#include "runtime/plan/check_plan.h"

namespace medley {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(30);
constexpr absl::Duration kCloseTime = absl::Seconds(2);
constexpr absl::Duration kAnswerTime = absl::Seconds(2);

// Units that hold neither end of the model see no tokens.
class NoWindows final : public WindowSource {
 public:
  absl::Status Read(Purpose, int64_t, int, absl::Span<int32_t>) override {
    return absl::InternalError("this unit holds neither the embedding nor the head");
  }
};

struct TrainingSetup {
  TrainingSpec spec;
  Plan plan;
  std::vector<ReductionChoice> reductions;
  int unit = 0;
  int64_t done_steps = 0;
};

// Which steps' instruction times are reported: an early one, once things run smoothly, and one now and then.
bool IsTraced(int64_t step, int64_t done_steps) { return step == done_steps + 4 || step % 25 == 0; }

v1::WorkerEvent StepEvent(const TrainingSetup& setup, int64_t step, const StepOutcome& outcome) {
  v1::WorkerEvent event;
  v1::StepMetrics& metrics = *event.mutable_step();
  metrics.set_step(static_cast<uint32_t>(step));
  metrics.set_loss(outcome.loss);
  metrics.set_gradient_norm(outcome.gradient_norm);
  metrics.set_learning_rate(outcome.learning_rate);
  metrics.set_step_seconds(outcome.seconds);
  metrics.set_tokens(static_cast<uint64_t>(setup.spec.shape.global_batch_sequences) * setup.spec.shape.sequence);
  return event;
}

v1::WorkerEvent MeasuredEvent(int64_t step, const StepOutcome& outcome, Bytes peak_memory, const Transport& transport) {
  v1::WorkerEvent event;
  v1::MeasuredStep& measured = *event.mutable_measured();
  measured.set_step(static_cast<uint32_t>(step));
  measured.set_started_at_seconds(absl::ToDoubleSeconds(outcome.started_at - absl::UnixEpoch()));
  measured.set_peak_memory_bytes(static_cast<uint64_t>(peak_memory.value));
  for (const MeasuredTime& time : outcome.times) {
    measured.add_start_seconds(time.start_seconds);
    measured.add_end_seconds(time.end_seconds);
  }
  AddTraffic(transport, measured);
  return event;
}

class TrainTask final : public WorkerTask {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerTask>> Prepare(const v1::PrepareRequest& request, const WorkerSite& site) {
    std::unique_ptr<TrainTask> task(new TrainTask);
    RETURN_IF_ERROR(task->ReadRequest(request));
    ASSIGN_OR_RETURN(task->device_, OpenDevice(site.device));
    RETURN_IF_ERROR(task->LoadModel(request.train().resume_from()));
    RETURN_IF_ERROR(task->OpenData());
    ASSIGN_OR_RETURN(task->communicator_, MakeCommunicator(request, site, task->setup_.unit,
                                                           static_cast<int>(task->setup_.plan.units.size())));
    return task;
  }

  std::string data_plane_address() const override { return communicator_->address(); }
  Bytes allocated() const override { return device_.queue->allocated(); }

  absl::Status Run(const std::vector<std::string>& addresses,
                   const std::function<void(const v1::WorkerEvent&)>& report) override {
    const absl::Status status = TrainConnected(addresses, report);
    if (status.ok()) {
      (void)communicator_->Close(Now() + kCloseTime);  // all that matters was acknowledged by the last sum
    } else {
      communicator_->GiveUp(std::string(status.message()), Now() + kCloseTime);
    }
    return status;
  }

 private:
  UnitExecutor::Options ExecutorOptions() {
    return {.spec = setup_.spec, .plan = setup_.plan, .unit = setup_.unit, .reductions = setup_.reductions,
            .ask = [this](int unit) { return communicator_->Ask(unit, "activity", Now() + kAnswerTime); },
            .warn = [](const std::string& report) { spdlog::warn("waiting for long: {}", report); }};
  }

  absl::Status TrainConnected(const std::vector<std::string>& addresses,
                              const std::function<void(const v1::WorkerEvent&)>& report) {
    UnitExecutor executor(ExecutorOptions(), *shard_, communicator_->transport(), *windows_);
    communicator_->OnQuestion([activity = executor.activity()](int, const std::string&) {
      return activity->Describe(Now());  // it outlives the executor
    });
    RETURN_IF_ERROR(
        Annotate(communicator_->Connect(addresses, Now() + kConnectTime), "connecting to the other units"));
    return Train(setup_.spec, setup_.done_steps, *shard_, executor,
                 OwnedSegments(setup_.plan, setup_.unit, setup_.spec.shape.model), Reports(report));
  }

  absl::Status ReadRequest(const v1::PrepareRequest& request) {
    const v1::TrainTask& train = request.train();
    std::optional<ModelConfig> config;
    if (!train.spec().model().hugging_face().empty()) {
      ASSIGN_OR_RETURN(config, ReadModelConfig(train.spec().model().hugging_face()));
    }
    ASSIGN_OR_RETURN(setup_.spec, DecodeJobSpec(train.spec(), train.job_id(), config));
    ASSIGN_OR_RETURN(setup_.plan, DecodePlan(train.plan()));
    setup_.unit = static_cast<int>(train.unit());
    PlanSite anywhere;  // the device itself says whether its part fits
    for (const Unit& unit : setup_.plan.units) anywhere.memory_by_device[unit.device] = GiB(1 << 20);
    std::vector<std::string> problems;
    for (const PlanViolation& violation : CheckPlan(setup_.plan, setup_.spec.shape, anywhere)) {
      problems.push_back(violation.detail);
    }
    if (!problems.empty()) return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(problems, "; ")));
    if (setup_.unit >= static_cast<int>(setup_.plan.units.size())) {
      return absl::InvalidArgumentError(absl::StrCat("unit: ", setup_.unit, " of ", setup_.plan.units.size()));
    }
    ASSIGN_OR_RETURN(setup_.reductions, DecodeReductions(train));
    return absl::OkStatus();
  }

  absl::Status LoadModel(const std::string& resume_from) {
    const TrainingSpec& spec = setup_.spec;
    ASSIGN_OR_RETURN(
        shard_,
        ModelShard::Create(device_, {.shape = spec.shape,
                                     .blocks = setup_.plan.units[setup_.unit].blocks,
                                     .micro_batch_sequences = setup_.plan.micro_batch_sequences,
                                     .slots = CompileStep(setup_.plan, setup_.unit, spec.shape, Purpose::kTrain).slots,
                                     .precision = spec.precision}));
    if (device_.emulated) return absl::OkStatus();  // there is nothing that could be loaded
    if (!resume_from.empty()) {
      ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(resume_from));
      setup_.done_steps = manifest.step;
      return LoadCheckpoint(manifest, spec, *shard_);
    }
    if (!spec.hugging_face_directory.empty()) return LoadHuggingFace(spec.hugging_face_directory, *shard_);
    return shard_->arena().Initialise(spec.seed);
  }

  absl::Status OpenData() {
    const ModelConfig& config = setup_.spec.shape.model;
    const BlockRange blocks = setup_.plan.units[setup_.unit].blocks;
    if (!blocks.contains(config.embedding_block()) && !blocks.contains(config.head_block())) {
      windows_ = std::make_unique<NoWindows>();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(windows_, FileWindowSource::Open(setup_.spec));
    return absl::OkStatus();
  }

  TrainerReports Reports(const std::function<void(const v1::WorkerEvent&)>& report) {
    TrainerReports reports;
    const bool speaks = setup_.unit == 0;  // losses and checkpoints are the same everywhere
    reports.step = [this, report, speaks](int64_t step, const StepOutcome& outcome) {
      if (speaks) report(StepEvent(setup_, step, outcome));
      if (!IsTraced(step, setup_.done_steps)) return;
      report(MeasuredEvent(step, outcome, device_.queue->peak_allocated() + device_.ops->workspace(), communicator_->transport()));
    };
    reports.warning = [](const std::string& text) { spdlog::warn("{}", text); };
    if (!speaks) return reports;
    reports.validation = [report](int64_t step, double loss) {
      v1::WorkerEvent event;
      event.mutable_validation()->set_step(static_cast<uint32_t>(step));
      event.mutable_validation()->set_loss(loss);
      report(event);
    };
    reports.checkpoint = [report](int64_t step, const std::string& directory) {
      v1::WorkerEvent event;
      event.mutable_checkpoint()->set_step(static_cast<uint32_t>(step));
      event.mutable_checkpoint()->set_path(directory);
      report(event);
    };
    return reports;
  }

  TrainingSetup setup_;
  Device device_;
  std::unique_ptr<ModelShard> shard_;
  std::unique_ptr<WindowSource> windows_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareTraining(const v1::PrepareRequest& request, const WorkerSite& site) {
  return TrainTask::Prepare(request, site);
}

}  // namespace medley

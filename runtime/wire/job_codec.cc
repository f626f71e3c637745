#include "runtime/wire/job_codec.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/wire/algorithm_codec.h"
#include "runtime/wire/job_paths.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/model_codec.h"
#include "runtime/wire/number_text.h"
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

constexpr int kTextVocabulary = 256;
constexpr int kUint16Vocabulary = 65536;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

template <typename T>
T OrDefault(T value, T fallback) {
  return value != 0 ? value : fallback;
}

// What nodes read and write: a relative path would be another file in each program's working directory.
absl::Status CheckPaths(const v1::JobSpec& spec) {
  for (const auto& [field, path] : PathsOf(spec)) {
    if (path.empty() || path[0] == '/') continue;
    return Invalid(field, ": \"", path,
                   "\" is not an absolute path; nodes read it under the same path everywhere");
  }
  return absl::OkStatus();
}

absl::Status CheckModelAgainstData(const v1::JobSpec& spec, const ModelConfig& model) {
  const std::string where = ModelFieldPath(spec.model());
  if (spec.batch().sequence_length() > static_cast<uint32_t>(model.context)) {
    return Invalid("batch.sequence_length: ", spec.batch().sequence_length(),
                   " is more than the model's context, ", model.context);
  }
  const v1::TokenFormat format = spec.data().format();
  const bool is_text = format == v1::TOKEN_FORMAT_TEXT || (format == v1::TOKEN_FORMAT_UNSPECIFIED &&
                                                           absl::EndsWith(spec.data().train(), ".txt"));
  if (is_text && model.vocabulary < kTextVocabulary) {
    return Invalid(where, ".vocabulary: ", model.vocabulary, " is too small for text; at least ",
                   kTextVocabulary);
  }
  if (format == v1::TOKEN_FORMAT_UINT16 && model.vocabulary > kUint16Vocabulary) {
    return Invalid(where, ".vocabulary: ", model.vocabulary, " is too large for tokens of 16 bits; at most ",
                   kUint16Vocabulary, ", or data.format uint32");
  }
  return absl::OkStatus();
}

Decay DecodeDecay(v1::Decay decay) {
  switch (decay) {
    case v1::DECAY_LINEAR:
      return Decay::kLinear;
    case v1::DECAY_CONSTANT:
      return Decay::kConstant;
    default:
      return Decay::kCosine;
  }
}

TokenFormat DecodeFormat(v1::TokenFormat format) {
  switch (format) {
    case v1::TOKEN_FORMAT_TEXT:
      return TokenFormat::kText;
    case v1::TOKEN_FORMAT_UINT16:
      return TokenFormat::kUint16;
    case v1::TOKEN_FORMAT_UINT32:
      return TokenFormat::kUint32;
    case v1::TOKEN_FORMAT_LLMC:
      return TokenFormat::kLlmC;
    default:
      return TokenFormat::kAutomatic;
  }
}

absl::StatusOr<OptimizerSettings> DecodeOptimizer(const v1::OptimizerSpec& spec, uint32_t steps) {
  OptimizerSettings settings;
  if (spec.has_learning_rate()) settings.learning_rate = spec.learning_rate();
  settings.minimum_learning_rate =
      spec.has_minimum_learning_rate() ? spec.minimum_learning_rate() : settings.learning_rate / 10;
  if (settings.minimum_learning_rate > settings.learning_rate) {
    return Invalid("optimizer.minimum_learning_rate: ", NumberText(settings.minimum_learning_rate),
                   " is more than learning_rate, ", NumberText(settings.learning_rate));
  }
  if (spec.warmup_steps() > steps) {
    return Invalid("optimizer.warmup_steps: ", spec.warmup_steps(), " is more than steps, ", steps);
  }
  settings.warmup_steps = static_cast<int>(spec.warmup_steps());
  settings.decay = DecodeDecay(spec.decay());
  if (spec.has_beta1()) settings.beta1 = spec.beta1();
  if (spec.has_beta2()) settings.beta2 = spec.beta2();
  if (spec.has_epsilon()) settings.epsilon = spec.epsilon();
  if (spec.has_weight_decay()) settings.weight_decay = spec.weight_decay();
  if (spec.has_clip_norm()) settings.clip_norm = spec.clip_norm();
  settings.skip_non_finite = static_cast<int>(spec.skip_non_finite());
  return settings;
}

absl::Status CheckConstraints(const v1::JobSpec& spec) {
  const v1::ConstraintSpec& constraints = spec.constraints();
  for (int i = 0; i < constraints.micro_batch_sizes_size(); ++i) {
    if (spec.batch().sequences() % constraints.micro_batch_sizes(i) == 0) continue;
    return Invalid("constraints.micro_batch_sizes[", i, "]: ", constraints.micro_batch_sizes(i),
                   " does not divide batch.sequences, ", spec.batch().sequences());
  }
  for (int i = 0; i < constraints.schedules_size(); ++i) {
    const absl::StatusOr<Schedule> schedule =
        DecodeSchedule(static_cast<v1::Schedule>(constraints.schedules(i)));
    // What is none is told where it is decoded.
    if (!schedule.ok() || IsPlanned(*schedule) || *schedule == Schedule::kListed) continue;
    return Invalid(
        "constraints.schedules[", i, "]: ", NameOf(*schedule),
        " is run where a plan names it, not chosen; one_forward_one_backward, gpipe and listed are "
        "chosen from");
  }
  const auto& schedules = constraints.schedules();
  if (std::count(schedules.begin(), schedules.end(), v1::SCHEDULE_LISTED) == schedules.size() &&
      !schedules.empty()) {
    return Invalid(
        "constraints.schedules: listed alone; passes are put in order for plans that were found with "
        "one_forward_one_backward or gpipe, so name one of them, too");
  }
  std::set<std::string> seen;
  for (int i = 0; i < constraints.devices_size(); ++i) {
    const std::string& device = constraints.devices(i);
    const size_t slash = device.find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == device.size()) {
      return Invalid("constraints.devices[", i, "]: \"", device, "\" is not of the form node/device");
    }
    if (!seen.insert(device).second)
      return Invalid("constraints.devices[", i, "]: \"", device, "\" is named twice");
  }
  return absl::OkStatus();
}

// What can be said of a pinned plan without knowing the cluster.
absl::Status CheckPinnedPlan(const v1::JobSpec& spec, const TrainingShape& shape, Precision precision) {
  if (!spec.has_plan()) return absl::OkStatus();
  const absl::StatusOr<Plan> plan = DecodePlan(spec.plan());
  if (!plan.ok()) return Invalid("plan.", plan.status().message());
  for (size_t i = 0; i < plan->units.size(); ++i) {
    for (size_t j = 0; j < plan->units[i].chunks.size(); ++j) {
      const int end = plan->units[i].chunks[j].end, blocks = shape.model.blocks();
      if (end <= blocks) continue;
      return Invalid("plan.units[", i, "].blocks[", j, "].end: ", end, " is more than the model's ", blocks,
                     " blocks");
    }
  }
  for (size_t i = 0; i < plan->units.size() && precision != Precision::kF16; ++i) {
    if (plan->units[i].activations != Dtype::kF16) continue;
    return Invalid("plan.units[", i, "].activations: f16, must be f32 or bf16 in a job of precision ",
                   std::string(NameOf(precision)), ", whose loss is not scaled");
  }
  const std::vector<PlanViolation> violations = CheckPlanForm(*plan, shape);
  if (!violations.empty()) return Invalid("plan.", violations[0].detail);
  return absl::OkStatus();
}

absl::StatusOr<JobConstraints> ConstraintsOfPinned(const v1::Plan& plan) {
  JobConstraints constraints;
  ASSIGN_OR_RETURN(constraints.plan, DecodePlan(plan));
  for (int u = 0; u < plan.units_size(); ++u) {
    if (plan.units(u).activations() == v1::TENSOR_TYPE_UNSPECIFIED) constraints.open_activations.push_back(u);
  }
  constraints.devices = DevicesOf(*constraints.plan);
  constraints.micro_batch_sizes = PassSizesOf(*constraints.plan);
  // What is not chosen by itself is compared with all that is.
  if (plan.schedule() != v1::SCHEDULE_UNSPECIFIED && IsPlanned(constraints.plan->schedule))
    constraints.schedules = {constraints.plan->schedule};
  return constraints;
}

// How many devices the job takes, held against those that it may use.
absl::Status CheckScheduling(const v1::JobSpec& spec) {
  const uint32_t least = spec.scheduling().least_devices(), most = spec.scheduling().most_devices();
  if (most != 0 && least > most) {
    return Invalid("scheduling.least_devices: ", least, " is more than scheduling.most_devices, ", most);
  }
  const uint32_t allowed = static_cast<uint32_t>(spec.constraints().devices_size());
  if (allowed != 0 && least > allowed) {
    return Invalid("scheduling.least_devices: ", least, " is more than constraints.devices names, ", allowed);
  }
  const uint32_t planned = static_cast<uint32_t>(DeviceCountOf(spec.plan()));
  if (most != 0 && planned > most) {
    return Invalid("scheduling.most_devices: ", most, " is less than the devices of plan, ", planned);
  }
  return absl::OkStatus();
}

absl::Status FillValidation(const v1::JobSpec& spec, TrainingSpec& result) {
  const bool has_data = !spec.data().validation().empty();
  if (spec.validation().every_steps() != 0 && !has_data) {
    return Invalid("validation.every_steps: ", spec.validation().every_steps(),
                   " is given, but data.validation is not");
  }
  result.validation_file = spec.data().validation();
  if (has_data) result.validate_every_steps = OrDefault<uint32_t>(spec.validation().every_steps(), 100);
  result.validation_batches = static_cast<int>(OrDefault<uint32_t>(spec.validation().batches(), 1));
  return absl::OkStatus();
}

void FillCheckpoint(const v1::CheckpointSpec& spec, const std::string& job_id, TrainingSpec& result) {
  if (!spec.directory().empty()) {
    result.checkpoint_directory =
        job_id.empty() ? spec.directory() : absl::StrCat(spec.directory(), "/", job_id);
  }
  result.checkpoint_every_steps = OrDefault<uint32_t>(spec.every_steps(), 100);
  result.checkpoint_keep = static_cast<int>(OrDefault<uint32_t>(spec.keep(), 2));
  result.resume_from = spec.resume_from();
}

DeviceMemoryStrategy DecodeDeviceMemory(v1::DeviceMemoryStrategy strategy) {
  switch (strategy) {
    case v1::DEVICE_MEMORY_STRATEGY_DIRECT:
      return DeviceMemoryStrategy::kDirect;
    case v1::DEVICE_MEMORY_STRATEGY_STAGED:
      return DeviceMemoryStrategy::kStaged;
    case v1::DEVICE_MEMORY_STRATEGY_WHOLE:
      return DeviceMemoryStrategy::kWhole;
    default:
      return DeviceMemoryStrategy::kAutomatic;
  }
}

Precision DecodePrecision(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_BF16:
      return Precision::kBf16;
    case v1::PRECISION_F16:
      return Precision::kF16;
    default:
      return Precision::kF32;
  }
}

absl::StatusOr<CommunicationSettings> DecodeCommunication(const v1::CommunicationSpec& spec) {
  CommunicationSettings settings;
  if (spec.all_reduce() != v1::ALL_REDUCE_ALGORITHM_UNSPECIFIED) {
    ASSIGN_OR_RETURN(settings.all_reduce, DecodeAllReduceAlgorithm(spec.all_reduce()));
  }
  settings.gradient_wire = DecodePrecision(spec.gradient_wire());
  if (settings.gradient_wire == Precision::kF16)
    return absl::InvalidArgumentError("communication.gradient_wire: f16, must be f32 or bf16");
  settings.device_memory = DecodeDeviceMemory(spec.device_memory());
  settings.message_protection = DecodeMessageProtection(spec.message_protection());
  if (settings.device_memory == DeviceMemoryStrategy::kDirect &&
      settings.message_protection != MessageProtection::kNone) {
    return Invalid(
        "communication.device_memory: direct hands the memory of devices to the network as it is, and "
        "message_protection is ",
        NameOf(settings.message_protection), ", by the job, its coordinator or a node; say staged or whole");
  }
  return settings;
}

// A checkpoint of numbers that were never computed would look like any other.
absl::Status CheckRehearsal(const v1::JobSpec& spec) {
  if (!spec.allow_emulated()) return absl::OkStatus();
  const v1::CheckpointSpec& checkpoint = spec.checkpoint();
  if (!checkpoint.directory().empty()) {
    return Invalid("checkpoint.directory: \"", checkpoint.directory(),
                   "\" is given, but a job with allow_emulated has nothing to save; leave one of them out");
  }
  if (!checkpoint.resume_from().empty()) {
    return Invalid("checkpoint.resume_from: \"", checkpoint.resume_from(),
                   "\" is given, but a job with allow_emulated computes nothing; leave one of them out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingSpec> DecodeJobSpec(const v1::JobSpec& spec, const std::string& job_id,
                                           const std::optional<ModelConfig>& hugging_face_config) {
  RETURN_IF_ERROR(ValidateMessage(spec));
  RETURN_IF_ERROR(CheckPaths(spec));
  TrainingSpec result;
  result.job_name = spec.name();
  ASSIGN_OR_RETURN(result.shape.model,
                   DecodeModel(spec.model(), spec.batch().sequence_length(), hugging_face_config));
  RETURN_IF_ERROR(CheckModelAgainstData(spec, result.shape.model));
  result.shape.sequence = static_cast<int>(spec.batch().sequence_length());
  result.shape.global_batch_sequences = static_cast<int>(spec.batch().sequences());
  result.hugging_face_directory = spec.model().hugging_face();
  result.train_file = spec.data().train();
  result.data_format = DecodeFormat(spec.data().format());
  result.data_order =
      spec.data().order() == v1::ORDER_SHUFFLED ? DataOrder::kShuffled : DataOrder::kSequential;
  result.steps = spec.steps();
  ASSIGN_OR_RETURN(result.optimizer, DecodeOptimizer(spec.optimizer(), spec.steps()));
  result.precision = DecodePrecision(spec.precision());
  result.seed = spec.seed();
  ASSIGN_OR_RETURN(result.communication, DecodeCommunication(spec.communication()));
  result.allow_emulated = spec.allow_emulated();
  RETURN_IF_ERROR(CheckRehearsal(spec));
  FillCheckpoint(spec.checkpoint(), job_id, result);
  RETURN_IF_ERROR(FillValidation(spec, result));
  if (spec.has_max_restarts()) result.max_restarts = static_cast<int>(spec.max_restarts());
  RETURN_IF_ERROR(CheckConstraints(spec));
  RETURN_IF_ERROR(CheckPinnedPlan(spec, result.shape, result.precision));
  RETURN_IF_ERROR(CheckScheduling(spec));
  return result;
}

absl::StatusOr<JobConstraints> DecodeConstraints(const v1::JobSpec& spec) {
  if (spec.has_plan()) return ConstraintsOfPinned(spec.plan());
  const v1::ConstraintSpec& constraints = spec.constraints();
  JobConstraints decoded;
  decoded.devices.assign(constraints.devices().begin(), constraints.devices().end());
  decoded.micro_batch_sizes.assign(constraints.micro_batch_sizes().begin(),
                                   constraints.micro_batch_sizes().end());
  for (const int number : constraints.schedules()) {
    ASSIGN_OR_RETURN(const Schedule schedule, DecodeSchedule(static_cast<v1::Schedule>(number)));
    if (std::count(decoded.schedules.begin(), decoded.schedules.end(), schedule) == 0)
      decoded.schedules.push_back(schedule);
  }
  if (constraints.has_post_validation()) decoded.post_validation = constraints.post_validation();
  decoded.max_routes = static_cast<int>(constraints.max_routes());
  decoded.max_stages = static_cast<int>(constraints.max_stages());
  decoded.most_price_per_hour = constraints.most_price_per_hour();
  decoded.most_devices = static_cast<int>(constraints.most_devices());
  decoded.objective = spec.objective() == v1::OBJECTIVE_COST ? Objective::kCost : Objective::kThroughput;
  decoded.deadline_seconds = constraints.deadline_seconds();
  return decoded;
}

}  // namespace medley

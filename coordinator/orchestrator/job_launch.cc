#include "coordinator/orchestrator/job_launch.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/reduction_codec.h"

namespace medley {
namespace {

// No device is silent for so long in training while all is well: so many steps, and at least so many seconds.
constexpr double kLeastSilenceSeconds = 120, kStepsOfSilence = 20;

// What the tasks of a launch are told alike.
v1::PrepareRequest SharedRequest(const v1::Job& job, const PlannedJob& planned, const Beginning& beginning) {
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
  train.set_resume_from(beginning.checkpoint);
  train.set_resumes_other_run(beginning.other_run);
  train.set_job_id(job.id());
  train.set_run_id(job.run_id());
  train.set_spec_fingerprint(FingerprintOf(job.spec()));
  train.set_data_fingerprint(job.data_fingerprint());
  train.set_predicted_step_seconds(step_seconds);
  train.set_job_attempt(job.attempt());
  for (const ReductionChoice& reduction : planned.reductions)
    *train.add_reductions() = EncodeReduction(reduction);
  return request;
}

}  // namespace

absl::StatusOr<std::vector<AttemptTask>> TrainingTasks(const v1::Job& job, const PlannedJob& planned,
                                                       const Beginning& beginning,
                                                       const std::vector<ClusterDeviceLocation>& granted) {
  std::vector<AttemptTask> tasks;
  const std::vector<std::string> names = DevicesOf(planned.plan);
  const auto shared =
      std::make_shared<const std::string>(SharedRequest(job, planned, beginning).SerializeAsString());
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const std::string& name = names[rank];
    const auto device = std::find_if(granted.begin(), granted.end(),
                                     [&](const ClusterDeviceLocation& d) { return FullName(d) == name; });
    if (device == granted.end())
      return absl::InternalError(absl::StrCat("the plan uses ", name, ", which was not granted"));
    AttemptTask& task = tasks.emplace_back(
        AttemptTask{.device = name, .agent_address = device->agent_address, .shared_request = shared});
    task.request.set_task_id(absl::StrCat(job.id(), "/", job.launch(), "/", rank));
    task.request.set_device(device->device.description.name);
    task.request.mutable_train()->set_rank(static_cast<uint32_t>(rank));
  }
  return tasks;
}

absl::Status CheckData(JobJournal& journal, const std::string& job_id, const std::vector<AttemptTask>& tasks,
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
  (void)journal.Change(job_id, [&](v1::Job& job) {
    before = job.data_fingerprint();
    if (before.empty()) job.set_data_fingerprint(fingerprint);
  });
  if (before.empty() || before == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data: the files have changed since the job began: it was ", before, ", and ",
                   tasks[first].device, " has ", fingerprint));
}

void NoteLaunch(JobJournal& journal, const std::string& job_id, const std::vector<AttemptTask>& tasks) {
  (void)journal.Apply(job_id, JobEvent::kLaunched, "", [&](v1::Job& job) {
    job.clear_tasks();
    for (const AttemptTask& task : tasks) {
      v1::LaunchedTask& launched = *job.add_tasks();
      launched.set_task_id(task.request.task_id());
      launched.set_device(task.device);
      launched.set_agent_address(task.agent_address);
    }
  });
}

}  // namespace medley

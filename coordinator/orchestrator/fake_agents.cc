#include "coordinator/orchestrator/fake_agents.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {

v1::WorkerEvent MadeUpProfile(const v1::ProfileTask& task, const std::string& device_kind) {
  v1::WorkerEvent event;
  v1::DeviceProfile& profile = *event.mutable_profile();
  profile.set_device_kind(device_kind);
  for (const uint32_t size : task.micro_batch_sizes()) {
    v1::BlockPassTimes& times = *profile.add_times();
    times.set_micro_batch_sequences(size);
    times.set_embedding_forward_seconds(1e-4 * size);
    times.set_embedding_backward_seconds(1e-4 * size);
    times.set_layer_forward_seconds(1e-2 * size);
    times.set_layer_backward_seconds(2e-2 * size);
    times.set_head_forward_seconds(1e-3 * size);
    times.set_head_backward_seconds(1e-3 * size);
  }
  profile.set_update_seconds_per_parameter(1e-9);
  profile.set_norm_seconds_per_parameter(1e-9);
  profile.set_measured_at_seconds(1);
  profile.set_provenance("made up");
  return event;
}

std::vector<v1::WorkerEvent> MadeUpMeasurement(const v1::ProfileTask& task, const std::string& device_kind) {
  std::vector<v1::WorkerEvent> events;
  if (task.turn_seconds() > 0) events.emplace_back().mutable_shared_turns()->add_pass_ratios(1);
  events.push_back(MadeUpProfile(task, device_kind));
  return events;
}

namespace {

absl::Status MeasureProfile(FakeWorker& worker) {
  for (const v1::WorkerEvent& event : MadeUpMeasurement(worker.request().profile())) worker.Say(event);
  return absl::OkStatus();
}

absl::Status MeasureLink(FakeWorker& worker) {
  worker.Say(LinkOf(1e-5, 1e9));
  return absl::OkStatus();
}

}  // namespace

// A task on its agent. All members are the agents' lock's, but for the script's thread.
class FakeAgents::Task final : public FakeWorker {
 public:
  Task(FakeAgents& agents, std::string address, v1::PrepareRequest request, Training script)
      : agents_(agents),
        address_(std::move(address)),
        request_(std::move(request)),
        script_(std::move(script)),
        thread_([this] { Live(); }) {}
  ~Task() override { thread_.join(); }

  const v1::PrepareRequest& request() const override { return request_; }
  const std::string& agent_address() const override { return address_; }
  void Say(const v1::WorkerEvent& event) override {
    MutexLock lock(agents_.mutex_);
    events_.push_back(event);
    events_.back().set_number(events_.size());
    agents_.changed_.NotifyAll();
  }
  absl::Status Die(const std::string& how) override {
    died_ = true;
    return absl::UnavailableError(how);
  }
  absl::Status FinishedAt(uint32_t step) override {
    finished_at_ = step;
    return absl::OkStatus();
  }
  void AwaitEnd() override {
    MutexLock lock(agents_.mutex_);
    agents_.changed_.WaitUntil(agents_.mutex_, absl::InfiniteFuture(),
                               [&] { return stopped_ || IsToFinish() || IsDown(); });
  }
  bool asked_to_finish() override {
    MutexLock lock(agents_.mutex_);
    return IsToFinish();
  }

 private:
  friend class FakeAgents;
  friend class Listener;
  bool IsDown() { return agents_.down_.count(address_) > 0; }
  bool IsToFinish() { return agents_.finishing_.count(request_.task_id()) > 0; }

  void Live() {
    v1::WorkerEvent last;
    v1::Finished& finished = *last.mutable_finished();
    const absl::Status ended = script_(*this);
    finished.set_code(static_cast<uint32_t>(ended.code()));
    finished.set_message(std::string(ended.message()));
    finished.set_died(died_);
    finished.set_stopped(finished_at_ > 0);
    finished.set_stopped_at_step(finished_at_);
    Say(last);
    MutexLock lock(agents_.mutex_);
    ended_ = true;
    agents_.changed_.NotifyAll();
  }

  FakeAgents& agents_;
  const std::string address_;
  const v1::PrepareRequest request_;
  const Training script_;
  std::vector<v1::WorkerEvent> events_;
  bool stopped_ = false, ended_ = false;
  bool died_ = false;  // of the thread alone, like the next
  uint32_t finished_at_ = 0;
  std::thread thread_;
};

class FakeAgents::Listener final : public RunningTask {
 public:
  Listener(FakeAgents& agents, std::string address, v1::StartRequest request, absl::Duration patience,
           TaskListener listener)
      : agents_(agents),
        address_(std::move(address)),
        request_(std::move(request)),
        patience_(patience),
        listener_(std::move(listener)),
        thread_([this] { listener_.ended(Listen()); }) {}
  ~Listener() override {
    Cancel();
    thread_.join();
  }
  void Cancel() override {
    MutexLock lock(agents_.mutex_);
    cancelled_ = true;
    agents_.changed_.NotifyAll();
  }

 private:
  absl::Status Listen() {
    std::shared_ptr<Task> task;
    {
      MutexLock lock(agents_.mutex_);
      const auto up = [&] { return cancelled_ || agents_.down_.count(address_) == 0; };
      if (!agents_.changed_.WaitUntil(agents_.mutex_, Now() + patience_, up)) {
        return absl::UnavailableError("connection refused");
      }
      const bool may_begin = agents_.down_.count(address_) == 0 && !request_.only_follow();
      if (cancelled_ && !may_begin) return absl::CancelledError("cancelled");
      ASSIGN_OR_RETURN(task, agents_.Begin(address_, request_));
    }
    for (size_t heard = request_.after_event();;) {
      v1::WorkerEvent event;
      {
        MutexLock lock(agents_.mutex_);
        agents_.changed_.WaitUntil(agents_.mutex_, absl::InfiniteFuture(), [&] {
          return cancelled_ || task->stopped_ || task->IsDown() || task->ended_ ||
                 task->events_.size() > heard;
        });
        if (task->IsDown()) return absl::UnavailableError("connection refused");
        if (cancelled_ || task->stopped_) return absl::CancelledError("cancelled");
        if (heard >= task->events_.size()) return absl::OkStatus();  // its end was heard before
        event = task->events_[heard++];
      }
      listener_.event(event);
      if (event.has_finished()) return absl::OkStatus();
    }
  }

  FakeAgents& agents_;
  const std::string address_;
  const v1::StartRequest request_;
  const absl::Duration patience_;
  const TaskListener listener_;
  bool cancelled_ = false;  // under agents_.mutex_
  std::thread thread_;
};

FakeAgents::~FakeAgents() {
  std::map<std::string, std::shared_ptr<Task>> tasks;  // end without the lock, as the next
  std::vector<std::thread> preparing;
  {
    MutexLock lock(mutex_);
    preparing.swap(preparing_);
  }
  for (std::thread& thread : preparing) thread.join();
  MutexLock lock(mutex_);
  for (const auto& [id, task] : tasks_) task->stopped_ = true;
  changed_.NotifyAll();
  tasks.swap(tasks_);
}

absl::StatusOr<std::shared_ptr<FakeAgents::Task>> FakeAgents::Begin(const std::string& agent_address,
                                                                    const v1::StartRequest& request) {
  const auto known = tasks_.find(request.task_id());
  if (known != tasks_.end()) return known->second;
  const auto script = scripts_.find(request.task_id());
  const auto prepared = std::find_if(requests_.begin(), requests_.end(), [&](const v1::PrepareRequest& one) {
    return one.task_id() == request.task_id();
  });
  if (request.only_follow() || script == scripts_.end())
    return absl::NotFoundError(absl::StrCat("no task ", request.task_id()));
  return tasks_[request.task_id()] = std::make_shared<Task>(*this, agent_address, *prepared, script->second);
}

int FakeAgents::begun() {
  MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(
      tasks_.begin(), tasks_.end(), [](const auto& entry) { return entry.second->request_.has_train(); }));
}

int FakeAgents::working() {
  MutexLock lock(mutex_);
  return static_cast<int>(
      std::count_if(tasks_.begin(), tasks_.end(), [](const auto& entry) { return !entry.second->ended_; }));
}

void FakeAgents::SetTraining(Training training) {
  MutexLock lock(mutex_);
  training_ = std::move(training);
}

void FakeAgents::SetProbe(Training probe) {
  MutexLock lock(mutex_);
  probe_ = std::move(probe);
}

void FakeAgents::SetProfile(Training profile) {
  MutexLock lock(mutex_);
  profile_ = std::move(profile);
}

void FakeAgents::SetPreparation(Preparation preparation) {
  MutexLock lock(mutex_);
  preparation_ = std::move(preparation);
}

void FakeAgents::SetFingerprint(Fingerprint fingerprint) {
  MutexLock lock(mutex_);
  fingerprint_ = std::move(fingerprint);
}

void FakeAgents::SetPeers(Peers peers) {
  MutexLock lock(mutex_);
  peers_ = std::move(peers);
}

std::vector<v1::StartRequest> FakeAgents::starts() {
  MutexLock lock(mutex_);
  return starts_;
}

void FakeAgents::TakeDown(const std::string& agent_address) {
  MutexLock lock(mutex_);
  down_.insert(agent_address);
  changed_.NotifyAll();
}

void FakeAgents::BringUp(const std::string& agent_address) {
  MutexLock lock(mutex_);
  down_.erase(agent_address);
}

std::vector<std::string> FakeAgents::stopped() {
  MutexLock lock(mutex_);
  return stopped_;
}

void FakeAgents::AwaitStop(const std::string& task_id) {
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, Now() + absl::Minutes(1),
                     [&] { return std::find(stopped_.begin(), stopped_.end(), task_id) != stopped_.end(); });
}

std::vector<v1::PrepareRequest> FakeAgents::trainings() {
  MutexLock lock(mutex_);
  std::vector<v1::PrepareRequest> found;
  for (const v1::PrepareRequest& request : requests_) {
    if (request.has_train()) found.push_back(request);
  }
  return found;
}

std::vector<v1::PrepareRequest> FakeAgents::requests() {
  MutexLock lock(mutex_);
  return requests_;
}

int FakeAgents::profiles() {
  MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(requests_.begin(), requests_.end(), [](const auto& r) {
    return r.has_profile() && r.profile().together_seconds() == 0;
  }));
}

int FakeAgents::probes() {
  MutexLock lock(mutex_);
  return static_cast<int>(
      std::count_if(requests_.begin(), requests_.end(), [](const auto& r) { return r.has_probe(); }));
}

bool FakeAgents::AwaitTrainings(size_t count) {
  MutexLock lock(mutex_);
  return changed_.WaitUntil(mutex_, Now() + absl::Minutes(1), [&] {
    return static_cast<size_t>(std::count_if(requests_.begin(), requests_.end(),
                                             [](const auto& r) { return r.has_train(); })) >= count;
  });
}

std::set<std::string> FakeAgents::connected() {
  MutexLock lock(mutex_);
  return connected_;
}

void FakeAgents::KeepConnected(const std::string& agent_address) {
  MutexLock lock(mutex_);
  connected_.insert(agent_address);
}

void FakeAgents::Disconnect(const std::string& agent_address) {
  MutexLock lock(mutex_);
  connected_.erase(agent_address);
}

void FakeAgents::Prepare(const std::string& agent_address, const PrepareParts& parts,
                         Answered<v1::PrepareResponse> answered) {
  v1::PrepareRequest request;  // as an agent reads it
  if (!request.ParseFromString((parts.shared == nullptr ? "" : *parts.shared) +
                               parts.own.SerializeAsString()))
    return answered(absl::InternalError("the parts of the request are no message"));
  Preparation preparation;
  Fingerprint fingerprint;
  Peers peers;
  bool is_down = false;
  {
    MutexLock lock(mutex_);
    is_down = down_.count(agent_address) > 0;
    if (!is_down) {
      requests_.push_back(request);
      scripts_[request.task_id()] = ScriptOf(request);
    }
    preparation = preparation_;
    fingerprint = fingerprint_;
    peers = peers_;
    changed_.NotifyAll();
  }
  if (is_down) return answered(absl::UnavailableError("connection refused"));
  v1::PrepareResponse response;
  response.set_data_plane_address(absl::StrCat("address of ", request.task_id()));
  if (fingerprint && request.has_train()) response.set_data_fingerprint(fingerprint(request));
  if (peers) {
    for (const uint32_t peer : peers(request)) response.add_peers(peer);
  }
  if (!preparation) return answered(response);
  // It may take until the task is stopped.
  MutexLock lock(mutex_);
  preparing_.emplace_back([request, preparation, response, answered] {
    const absl::Status status = preparation(request);
    status.ok() ? answered(response) : answered(status);
  });
}

std::unique_ptr<RunningTask> FakeAgents::Start(const std::string& agent_address,
                                               const v1::StartRequest& request, absl::Duration patience,
                                               TaskListener listener) {
  {
    MutexLock lock(mutex_);
    starts_.push_back(request);
  }
  return std::make_unique<Listener>(*this, agent_address, request, patience, std::move(listener));
}

bool FakeAgents::IsDown(const std::string& agent_address) {
  MutexLock lock(mutex_);
  return down_.count(agent_address) > 0;
}

void FakeAgents::DescribeStacks(const std::string& agent_address, const v1::DescribeStacksRequest& request,
                                absl::Time, Answered<v1::DescribeStacksResponse> answered) {
  if (IsDown(agent_address)) return answered(absl::UnavailableError("connection refused"));
  v1::DescribeStacksResponse response;
  response.set_text(absl::StrCat("threads of ", request.task_id()));
  answered(response);
}

void FakeAgents::SetTraceAnswer(TraceAnswer answer) {
  MutexLock lock(mutex_);
  trace_answer_ = std::move(answer);
}

void FakeAgents::SetStopAnswer(StopAnswer answer) {
  MutexLock lock(mutex_);
  stop_answer_ = std::move(answer);
}

void FakeAgents::TraceTask(const std::string& agent_address, const v1::TraceTaskRequest& request, absl::Time,
                           Answered<v1::TraceTaskResponse> answered) {
  if (IsDown(agent_address)) return answered(absl::UnavailableError("connection refused"));
  TraceAnswer answer;
  {
    MutexLock lock(mutex_);
    answer = trace_answer_;
  }
  if (answer) return answered(answer(request));
  v1::TraceTaskResponse accepted;
  accepted.set_current_step(1);
  accepted.set_accepted(request.steps() > 0);
  answered(accepted);
}

void FakeAgents::CheckNode(const std::string& agent_address, const v1::CheckNodeRequest& request, absl::Time,
                           Answered<v1::NodeCheck> answered) {
  if (IsDown(agent_address)) return answered(absl::UnavailableError("connection refused"));
  v1::NodeCheck check;
  check.set_medley_version("0.1");
  check.set_clock_seconds(1e9);
  for (const std::string& directory : request.directories()) check.add_findings()->set_subject(directory);
  answered(check);
}

void FakeAgents::DescribeKernels(const std::string& agent_address, absl::Time,
                                 Answered<v1::NodeKernels> answered) {
  if (IsDown(agent_address)) return answered(absl::UnavailableError("connection refused"));
  v1::NodeKernels kernels;
  kernels.add_devices()->set_description(absl::StrCat("fake at ", agent_address));
  answered(kernels);
}

void FakeAgents::Stop(const std::string& agent_address, const v1::StopRequest& request,
                      std::function<void(const absl::Status&)> answered) {
  StopAnswer answer;
  {
    MutexLock lock(mutex_);
    answer = stop_answer_;
  }
  const absl::Status status = answer ? answer(request) : absl::OkStatus();
  answered(status.ok() ? StopTask(agent_address, request) : status);
}

absl::Status FakeAgents::StopTask(const std::string& agent_address, const v1::StopRequest& request) {
  MutexLock lock(mutex_);
  if (down_.count(agent_address) > 0) return absl::UnavailableError("connection refused");
  const auto task = tasks_.find(request.task_id());
  if (request.after_checkpoint()) {
    finishing_.insert(request.task_id());
  } else {
    stopped_.push_back(request.task_id());
    scripts_.erase(request.task_id());
    if (task != tasks_.end()) task->second->stopped_ = true;
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

FakeAgents::Training FakeAgents::ScriptOf(const v1::PrepareRequest& request) {
  if (request.has_profile()) return profile_ ? profile_ : MeasureProfile;
  if (request.has_probe()) return probe_ ? probe_ : MeasureLink;
  return training_ ? training_ : TrainThreeSteps;
}

v1::WorkerEvent StepOf(uint32_t step, double loss, double seconds) {
  v1::WorkerEvent event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_loss(loss);
  event.mutable_step()->set_step_seconds(seconds);
  return event;
}

v1::WorkerEvent LinkOf(double latency_seconds, double bytes_per_second) {
  v1::WorkerEvent event;
  event.mutable_link()->set_latency_seconds(latency_seconds);
  event.mutable_link()->set_bytes_per_second(bytes_per_second);
  event.mutable_link()->set_all_reduce_bytes_per_second(bytes_per_second);
  event.mutable_link()->set_transport("made up");
  return event;
}

v1::WorkerEvent CheckpointAt(uint32_t step, const std::string& path) {
  v1::WorkerEvent event;
  event.mutable_checkpoint()->set_step(step);
  event.mutable_checkpoint()->set_path(path);
  return event;
}

absl::Status TrainThreeSteps(FakeWorker& worker) {
  if (worker.request().train().rank() != 0) return absl::OkStatus();
  for (uint32_t step = 1; step <= 3; ++step) worker.Say(StepOf(step, 4.0 - step));
  return absl::OkStatus();
}

absl::Status TrainForEver(FakeWorker& worker) {
  if (worker.request().train().rank() == 0) worker.Say(StepOf(1, 3.0));
  worker.AwaitEnd();
  return worker.asked_to_finish() ? worker.FinishedAt(2) : absl::OkStatus();
}

v1::RegisterRequest FakeNode(const std::string& name, int devices, uint64_t incarnation,
                             const std::string& kind) {
  v1::RegisterRequest request;
  request.set_incarnation(incarnation);
  request.mutable_node()->set_name(name);
  request.mutable_node()->set_host(name);
  request.mutable_node()->set_agent_address(name + ":1");
  for (int i = 0; i < devices; ++i) {
    v1::Device& device = *request.mutable_node()->add_devices();
    device.set_name(absl::StrCat("cpu", i));
    device.set_backend("cpu");
    device.set_variant("avx2");
    device.add_cores(static_cast<uint32_t>(i));
    device.set_memory_bytes(1u << 30);
    device.set_kind(kind);
  }
  return request;
}

v1::JobSpec FakeJob(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  v1::Gpt2Spec& model = *spec.mutable_model()->mutable_gpt2();
  model.set_layers(2);
  model.set_hidden(8);
  model.set_heads(2);
  spec.mutable_data()->set_train("/data/train.txt");
  spec.mutable_batch()->set_sequences(4);
  spec.mutable_batch()->set_sequence_length(8);
  spec.set_steps(3);
  return spec;
}

v1::JobSpec PinnedJob(const std::string& name, const std::vector<std::string>& devices) {
  v1::JobSpec spec = FakeJob(name);
  spec.mutable_batch()->set_sequences(static_cast<uint32_t>(devices.size()));
  v1::Plan& plan = *spec.mutable_plan();
  plan.set_micro_batch_sequences(1);
  for (size_t i = 0; i < devices.size(); ++i) {
    v1::Unit& unit = *plan.add_units();
    unit.add_devices(devices[i]);
    unit.add_blocks()->set_end(4);
    v1::Route& route = *plan.add_routes();
    route.add_units(static_cast<uint32_t>(i));
    route.set_micro_batches(1);
  }
  return spec;
}

}  // namespace medley

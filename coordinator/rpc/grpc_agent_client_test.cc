#include "coordinator/rpc/grpc_agent_client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

// Agents behind one address, whose tasks say what a script says and then go on until they are stopped.
class Agents final : public v1::Agent::CallbackService {
 public:
  // The events of a task that is listened to from `after_event` on.
  using Script = std::function<std::vector<v1::WorkerEvent>(const v1::StartRequest&)>;
  explicit Agents(Script script, const std::string& address = "127.0.0.1:0") : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~Agents() override { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }
  std::atomic<int> following = 0;
  // So many calls are answered and then break off instead of what the script says.
  std::atomic<int> breaks = 0;

  grpc::ServerUnaryReactor* Prepare(grpc::CallbackServerContext* context, const v1::PrepareRequest* request,
                                    v1::PrepareResponse* response) override {
    response->set_data_plane_address(absl::StrCat("address of ", request->task_id(), ", rank ",
                                                  request->train().rank(), " of ",
                                                  request->train().job_id()));
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerWriteReactor<v1::WorkerEvent>* Start(grpc::CallbackServerContext*,
                                                   const v1::StartRequest* request) override {
    ++following;
    return new Following(*this, *request);
  }
  grpc::ServerUnaryReactor* DescribeKernels(grpc::CallbackServerContext* context,
                                            const v1::DescribeKernelsRequest*, v1::NodeKernels*) override {
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const v1::StopRequest* request,
                                 v1::StopResponse*) override {
    {
      MutexLock lock(mutex_);
      stopped_.insert(request->task_id());
      for (Following* following : open_) following->LookAround();
    }
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  class Following final : public grpc::ServerWriteReactor<v1::WorkerEvent> {
   public:
    Following(Agents& agents, const v1::StartRequest& request)
        : agents_(agents), task_id_(request.task_id()), events_(agents.script_(request)) {
      {
        MutexLock lock(agents_.mutex_);
        agents_.open_.insert(this);
        if (agents_.breaks > 0) {
          --agents_.breaks;
          breaks_ = finished_ = true;
        }
        GoOn();
      }
      StartSendInitialMetadata();
    }
    // Not before the agent's answer has gone off.
    void OnSendInitialMetadataDone(bool) override {
      if (breaks_) Finish({grpc::StatusCode::UNAVAILABLE, "the connection broke"});
    }
    void OnWriteDone(bool) override {
      MutexLock lock(agents_.mutex_);
      ++next_;
      writing_ = false;
      GoOn();
    }
    void OnCancel() override {
      MutexLock lock(agents_.mutex_);
      cancelled_ = true;
      GoOn();
    }
    void OnDone() override {
      {
        MutexLock lock(agents_.mutex_);
        agents_.open_.erase(this);
      }
      delete this;
    }
    void LookAround() ABSL_NO_THREAD_SAFETY_ANALYSIS { GoOn(); }

   private:
    void GoOn() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (writing_ || finished_) return;
      const bool said_all = next_ == events_.size();
      const bool has_ended = said_all && !events_.empty() && events_.back().has_finished();
      if (cancelled_ || has_ended || agents_.stopped_.count(task_id_) > 0) {
        finished_ = true;
        return Finish(cancelled_ || !has_ended ? grpc::Status::CANCELLED : grpc::Status::OK);
      }
      if (said_all) return;
      writing_ = true;
      StartWrite(&events_[next_]);
    }

    Agents& agents_;
    const std::string task_id_;
    const std::vector<v1::WorkerEvent> events_;
    size_t next_ = 0;
    bool writing_ = false, finished_ = false, cancelled_ = false, breaks_ = false;
  };

  const Script script_;
  std::string address_;
  Mutex mutex_;
  std::set<std::string> stopped_ ABSL_GUARDED_BY(mutex_);
  std::set<Following*> open_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

v1::WorkerEvent Numbered(uint64_t number) {
  v1::WorkerEvent event;
  event.set_number(number);
  event.mutable_step()->set_step(static_cast<uint32_t>(number));
  return event;
}
v1::WorkerEvent Last(uint64_t number) {
  v1::WorkerEvent event;
  event.set_number(number);
  event.mutable_finished();
  return event;
}

// What was heard of a task.
struct Heard {
  Mutex mutex;
  ConditionVariable changed;
  std::vector<uint64_t> numbers ABSL_GUARDED_BY(mutex);
  std::vector<absl::Status> ends ABSL_GUARDED_BY(mutex);

  TaskListener Listener() {
    return {[this](const v1::WorkerEvent& event) {
              MutexLock lock(mutex);
              numbers.push_back(event.number());
              changed.NotifyAll();
            },
            [this](const absl::Status& status) {
              MutexLock lock(mutex);
              ends.push_back(status);
              changed.NotifyAll();
            }};
  }
  bool AwaitEvents(size_t count) {
    MutexLock lock(mutex);
    return changed.WaitUntil(mutex, Now() + kPatience, [&] { return numbers.size() >= count; });
  }
  absl::Status AwaitEnd() {
    MutexLock lock(mutex);
    if (!changed.WaitUntil(mutex, Now() + kPatience, [&] { return !ends.empty(); }))
      return absl::UnknownError("it did not end");
    return ends.front();
  }
};

v1::StartRequest Task(const std::string& id) {
  v1::StartRequest request;
  request.set_task_id(id);
  return request;
}

// How a call to the agent ends. It is none that the client gives up after a second, for which a busy machine may
// keep both of them waiting.
absl::Status Ask(GrpcAgentClient& client, const std::string& address) {
  Heard answered;
  client.DescribeKernels(address, Now() + kPatience / 2, [&](const absl::StatusOr<v1::NodeKernels>& answer) {
    answered.Listener().ended(answer.status());
  });
  return answered.AwaitEnd();
}

int Threads() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                        std::filesystem::directory_iterator()));
}

TEST_CASE("an attempt of hundreds of tasks is prepared, listened to and stopped by a few threads") {
  constexpr int kTasks = 400;
  Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; });
  GrpcAgentClient client;
  std::vector<AttemptTask> tasks(kTasks);
  for (int i = 0; i < kTasks; ++i) {
    tasks[i].device = absl::StrCat("n", i, "/cpu0");
    tasks[i].agent_address = agents.address();
    tasks[i].request.set_task_id(absl::StrCat("task ", i));
    tasks[i].request.mutable_train()->set_rank(static_cast<uint32_t>(i));
  }
  const int before = Threads();
  AttemptRun run(client, tasks);
  std::atomic<int> heard = 0, most_threads = 0;
  const AttemptEnd end = run.Run({.event = [&](int, const v1::WorkerEvent&) {
    if (++heard < kTasks) return;
    most_threads = Threads();  // all of them are listened to
    run.Abort(absl::CancelledError("enough"));
  }});
  CHECK(end.prepared);
  CHECK(end.status == absl::CancelledError("enough"));
  CHECK(heard == kTasks);
  CAPTURE(before, most_threads.load());
  // gRPC's own, by cores and not by tasks.
  CHECK(most_threads - before < 64);
}

TEST_CASE("a task is heard to its end, once") {
  Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1), Numbered(2), Last(3)}; });
  GrpcAgentClient client;
  Heard heard;
  {
    const auto task = client.Start(agents.address(), Task("t"), absl::ZeroDuration(), heard.Listener());
    CHECK(heard.AwaitEnd().ok());
  }
  MutexLock lock(heard.mutex);
  CHECK(heard.numbers == std::vector<uint64_t>{1, 2, 3});
  CHECK(heard.ends.size() == 1);
}

TEST_CASE("an agent that was away for a moment is asked for what was not heard yet") {
  std::optional<Agents> agents;
  agents.emplace([](const v1::StartRequest&) { return std::vector{Numbered(1), Numbered(2)}; });
  const std::string address = agents->address();
  GrpcAgentClient client;
  Heard heard;
  const auto task = client.Start(address, Task("t"), kPatience, heard.Listener());
  REQUIRE(heard.AwaitEvents(2));
  agents.reset();
  agents.emplace(
      [](const v1::StartRequest& request) {
        std::vector<v1::WorkerEvent> events;
        for (uint64_t number = request.after_event() + 1; number < 4; ++number)
          events.push_back(Numbered(number));
        events.push_back(Last(4));
        return events;
      },
      address);
  CHECK(heard.AwaitEnd().ok());
  MutexLock lock(heard.mutex);
  CHECK(heard.numbers == std::vector<uint64_t>{1, 2, 3, 4});
}

TEST_CASE("patience begins anew with each connection that breaks, however long the task has said nothing") {
  Agents agents([](const v1::StartRequest&) { return std::vector{Last(1)}; });
  agents.breaks = 5;
  GrpcAgentClient client;
  Heard heard;
  const auto task = client.Start(agents.address(), Task("t"), absl::Milliseconds(1), heard.Listener());
  CHECK(heard.AwaitEnd().ok());
  CHECK(agents.following == 6);
}

TEST_CASE("an agent that is gone, or never was there, is given up when patience is over") {
  std::string address;
  {
    const Agents agents([](const v1::StartRequest&) { return std::vector<v1::WorkerEvent>(); });
    address = agents.address();
  }
  GrpcAgentClient client;
  Heard heard;
  const auto task = client.Start(address, Task("t"), absl::Milliseconds(250), heard.Listener());
  CHECK(absl::IsUnavailable(heard.AwaitEnd()));
  absl::Status prepared;
  Heard answers;
  client.Prepare(address, {}, [&](const absl::StatusOr<v1::PrepareResponse>& answer) {
    answers.Listener().ended(answer.status());
  });
  CHECK(absl::IsUnavailable(answers.AwaitEnd()));
}

TEST_CASE("who cancels hears the end once, while the agent works and while it cannot be reached") {
  const bool is_there = GENERATE(true, false);
  CAPTURE(is_there);
  std::optional<Agents> agents;
  agents.emplace([](const v1::StartRequest&) { return std::vector{Numbered(1)}; });
  GrpcAgentClient client;
  Heard heard;
  {
    const auto task = client.Start(agents->address(), Task("t"), kPatience, heard.Listener());
    REQUIRE(heard.AwaitEvents(1));
    if (!is_there) agents.reset();
    task->Cancel();
    CHECK(absl::IsCancelled(heard.AwaitEnd()));
    task->Cancel();
  }
  MutexLock lock(heard.mutex);
  CHECK(heard.ends.size() == 1);
}

TEST_CASE("a task begins although nobody listens any more when its agent hears of it") {
  Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; });
  GrpcAgentClient client;
  for (int tasks = 1; tasks <= 20; ++tasks) {
    Heard heard;
    client.Start(agents.address(), Task(absl::StrCat("t", tasks)), kPatience, heard.Listener()).reset();
    CHECK(absl::IsCancelled(heard.AwaitEnd()));
    CHECK(agents.following == tasks);
  }
}

TEST_CASE("an event that cannot be read ends the task instead of hanging it") {
  Agents agents([](const v1::StartRequest&) {
    v1::WorkerEvent event = Numbered(1);
    event.set_log("caf\xe9");
    return std::vector{event};
  });
  GrpcAgentClient client;
  Heard heard;
  const auto task = client.Start(agents.address(), Task("t"), absl::ZeroDuration(), heard.Listener());
  CHECK(absl::IsCancelled(heard.AwaitEnd()));
}

TEST_CASE("channels that nothing uses any more are not kept for ever, those of tasks are") {
  Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; });
  GrpcAgentClient client(nullptr, absl::ZeroDuration());
  Heard heard;
  const auto task = client.Start(agents.address(), Task("t"), kPatience, heard.Listener());
  REQUIRE(heard.AwaitEvents(1));
  for (int i = 0; i < 20; ++i) REQUIRE(absl::IsUnavailable(Ask(client, absl::StrCat("127.0.0.1:", 1 + i))));
  // A call lets its channel go shortly after it was answered.
  const absl::Time deadline = Now() + kPatience;
  while (client.channels() > 2 && Now() < deadline) {
    REQUIRE(absl::IsUnavailable(Ask(client, "127.0.0.1:1")));
  }
  CHECK(client.channels() == 2);
  REQUIRE(Ask(client, agents.address()).ok());
  MutexLock lock(heard.mutex);
  CHECK(heard.ends.empty());
}

TEST_CASE("an agent is connected to ahead of calls, whenever it comes") {
  std::string address;
  {
    address = Agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; }).address();
  }
  GrpcAgentClient client;
  for (int i = 0; i < 1000; ++i) client.KeepConnected(address);
  CHECK(absl::IsUnavailable(Ask(client, address)));
  const Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; }, address);
  CHECK(Ask(client, address).ok());  // no call waits for a pause between attempts
  client.KeepConnected(address);
  CHECK(client.channels() == 1);
  client.Disconnect(address);
  CHECK(client.channels() == 0);
}

TEST_CASE("what is asked of an agent is answered") {
  Agents agents([](const v1::StartRequest&) { return std::vector{Numbered(1)}; });
  GrpcAgentClient client;
  Heard prepared;
  v1::PrepareRequest shared, own;
  shared.mutable_train()->set_job_id("job");
  own.mutable_train()->set_rank(3);
  own.set_task_id("t");
  const auto encoded = std::make_shared<const std::string>(shared.SerializeAsString());
  std::string data_plane;
  client.Prepare(agents.address(), {encoded, own}, [&](const absl::StatusOr<v1::PrepareResponse>& answer) {
    if (answer.ok()) data_plane = answer->data_plane_address();
    prepared.Listener().ended(answer.status());
  });
  CHECK(prepared.AwaitEnd().ok());
  CHECK(data_plane == "address of t, rank 3 of job");
  CHECK(client.channels() == 1);
  absl::Status stopped;
  const absl::Time deadline = Now() + kPatience;
  do {  // it is given up after a second, which a busy machine may take
    Heard answered;
    client.Stop(agents.address(), {}, [&](const absl::Status& status) { answered.Listener().ended(status); });
    stopped = answered.AwaitEnd();
  } while (absl::IsDeadlineExceeded(stopped) && Now() < deadline);
  CHECK(stopped.ok());
}

}  // namespace
}  // namespace medley

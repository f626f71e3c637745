#include "tests/perf/simulated_agents.h"

#include <google/protobuf/arena.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/message_allocator.h>

#include <stdexcept>
#include <utility>

#include "coordinator/orchestrator/fake_agents.h"
#include "runtime/base/unix_time.h"
#include "runtime/security/credentials.h"

namespace medley {
namespace {

// A message in memory of its own, which is taken and let go at once: a thousand agents read here what each would read on a machine of its
// own, and most of that is to get and to free memory.
class MessagesInOneBlock final : public grpc::MessageAllocator<v1::PrepareRequest, v1::PrepareResponse> {
 public:
  grpc::MessageHolder<v1::PrepareRequest, v1::PrepareResponse>* AllocateMessages() override {
    return new Holder;
  }

 private:
  class Holder final : public grpc::MessageHolder<v1::PrepareRequest, v1::PrepareResponse> {
   public:
    Holder() : arena_(Options()) {
      set_request(google::protobuf::Arena::CreateMessage<v1::PrepareRequest>(&arena_));
      set_response(google::protobuf::Arena::CreateMessage<v1::PrepareResponse>(&arena_));
    }
    void Release() override { delete this; }

   private:
    static google::protobuf::ArenaOptions Options() {
      google::protobuf::ArenaOptions options;
      options.start_block_size = options.max_block_size = size_t{1} << 18;
      return options;
    }
    google::protobuf::Arena arena_;
  };
};

class Saying final : public grpc::ServerWriteReactor<v1::WorkerEvent> {
 public:
  explicit Saying(std::vector<v1::WorkerEvent> events) : events_(std::move(events)) { GoOn(); }
  void OnWriteDone(bool) override { GoOn(); }
  void OnDone() override { delete this; }

 private:
  void GoOn() { next_ == events_.size() ? Finish(grpc::Status::OK) : StartWrite(&events_[next_++]); }
  std::vector<v1::WorkerEvent> events_;
  size_t next_ = 0;
};

std::vector<v1::WorkerEvent> EventsOf(const v1::PrepareRequest& request) {
  std::vector<v1::WorkerEvent> events;
  if (request.has_profile()) events = MadeUpMeasurement(request.profile(), kSimulatedKind);
  if (request.has_probe()) events.push_back(LinkOf(1e-5, 1e9));
  if (request.has_train() && request.train().rank() == 0) events.push_back(StepOf(1, 3.0));
  events.emplace_back().mutable_finished();
  for (size_t i = 0; i < events.size(); ++i) events[i].set_number(i + 1);
  return events;
}

grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext& context) {
  auto* const reactor = context.DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

SimulatedAgents::SimulatedAgents(int count, const std::optional<Certificates>& certificates) : ports_(count) {
  static auto& messages = *new MessagesInOneBlock;
  grpc::ServerBuilder builder;
  const auto credentials = certificates.has_value() ? ServerTls(certificates->Issue(v1::ROLE_AGENT, "*"),
                                                                [](const auto&, const auto&, const auto&) {})
                                                    : grpc::InsecureServerCredentials();
  SetMessageAllocatorFor_Prepare(&messages);
  for (int& port : ports_) builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("no port could be opened");
}

SimulatedAgents::~SimulatedAgents() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<double> SimulatedAgents::read_at_seconds() {
  MutexLock lock(mutex_);
  return read_at_seconds_;
}

size_t SimulatedAgents::message_bytes() {
  MutexLock lock(mutex_);
  return message_bytes_;
}

grpc::ServerUnaryReactor* SimulatedAgents::Prepare(grpc::CallbackServerContext* context,
                                                   const v1::PrepareRequest* request,
                                                   v1::PrepareResponse* response) {
  const double now = UnixSecondsNow();
  response->set_data_plane_address("nowhere");
  {
    MutexLock lock(mutex_);
    if (request->has_train()) {
      read_at_seconds_.push_back(now);
      if (message_bytes_ == 0) message_bytes_ = request->ByteSizeLong();
    }
    events_[request->task_id()] = EventsOf(*request);
  }
  return Done(*context);
}

grpc::ServerWriteReactor<v1::WorkerEvent>* SimulatedAgents::Start(grpc::CallbackServerContext*,
                                                                  const v1::StartRequest* request) {
  MutexLock lock(mutex_);
  return new Saying(events_[request->task_id()]);
}

grpc::ServerUnaryReactor* SimulatedAgents::Stop(grpc::CallbackServerContext* context, const v1::StopRequest*,
                                                v1::StopResponse*) {
  return Done(*context);
}

}  // namespace medley

#include "runtime/daemon/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>

#include "runtime/base/clock.h"
#include "runtime/security/test_certificates.h"
#include "runtime/wire/grpc_channel.h"

namespace medley {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr char kCheck[] = "/grpc.health.v1.Health/Check", kWatch[] = "/grpc.health.v1.Health/Watch";

// Of an rpc of gRPC's health service, about the server as a whole: an empty message.
struct Call {
  Call(const std::shared_ptr<grpc::Channel>& channel, const char* method) : stub(channel) {
    context.set_deadline(ToSystemClock(Now() + kPatience));
    call = stub.PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    Await();
    grpc::ByteBuffer empty(nullptr, 0);
    call->WriteLast(empty, grpc::WriteOptions(), nullptr);
    Await();
  }
  ~Call() {
    queue.Shutdown();
    void* tag = nullptr;
    bool done = false;
    while (queue.Next(&tag, &done)) continue;
  }
  bool Await() {
    void* tag = nullptr;
    bool done = false;
    return queue.Next(&tag, &done) && done;
  }
  bool Read() {
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    return Await();
  }
  grpc::Status Finish() {
    grpc::Status status;
    call->Finish(&status, nullptr);
    Await();
    return status;
  }

  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
};

struct Site {
  Site(absl::Duration age, absl::Duration grace) {
    absl::StatusOr<RunningServer> started = StartServer(
        {.listen_address = "127.0.0.1:0", .tls = &served, .connection_age = age, .connection_grace = grace});
    INFO(started.status());
    REQUIRE(started.ok());
    running = *std::move(started);
    channel = OpenChannel(running.address, {.credentials = ChannelTls(viewer, v1::ROLE_COORDINATOR)});
  }
  void CheckCall() {
    Call call(channel, kCheck);
    CHECK(call.Read());
    const grpc::Status status = call.Finish();
    CHECK((status.ok() ? "" : status.error_message()) == "");
  }
  // Until the server has said that the connection is for no further calls.
  bool AwaitItsEnd() {
    return channel->WaitForStateChange(GRPC_CHANNEL_READY, ToSystemClock(Now() + kPatience));
  }

  const TestCertificates certificates;
  const v1::TlsConfig served = certificates.Issue(v1::ROLE_COORDINATOR),
                      viewer = certificates.Issue(v1::ROLE_VIEWER);
  RunningServer running;
  std::shared_ptr<grpc::Channel> channel;
};

TEST_CASE("a connection ends with its age, and callers notice nothing between calls") {
  Site site(absl::Milliseconds(100), absl::Hours(1));
  for (int connections = 0; connections < 3; ++connections) {
    site.CheckCall();
    CHECK(site.AwaitItsEnd());
  }
  site.CheckCall();
}

TEST_CASE("a stream that is open goes on within the grace, beside calls on a new connection") {
  Site site(absl::Milliseconds(100), absl::Hours(1));
  Call stream(site.channel, kWatch);
  CHECK(stream.Read());
  CHECK(site.AwaitItsEnd());
  site.CheckCall();
  stream.context.TryCancel();
  CHECK_FALSE(stream.Read());
  CHECK(stream.Finish().error_code() == grpc::StatusCode::CANCELLED);  // and not by the server
}

TEST_CASE("after the grace a stream ends as if the server had gone, and the next call is answered") {
  Site site(absl::Milliseconds(100), absl::Milliseconds(100));
  Call stream(site.channel, kWatch);
  CHECK(stream.Read());
  CHECK_FALSE(stream.Read());
  CHECK(stream.Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  // On a busy machine a call may take longer than this site's connections last.
  const absl::Time end = Now() + kPatience;
  for (bool answered = false; !answered;) {
    REQUIRE(Now() < end);
    Call call(site.channel, kCheck);
    answered = call.Read();
    answered = call.Finish().ok() && answered;
  }
}

TEST_CASE("figures have labels of rpcs that there are, whatever is called") {
  RpcFigures figures;
  const absl::StatusOr<RunningServer> running =
      StartServer({.listen_address = "127.0.0.1:0", .figures = &figures});
  REQUIRE(running.ok());
  const auto channel = OpenChannel(running->address);
  for (const char* method : {"/nobody.Knows/This", "/nobody.Knows/That", kCheck}) {
    Call call(channel, method);
    (void)call.Read();
    CHECK(call.Finish().ok() == (method == kCheck));
  }
  OpenMetrics metrics;
  figures.AddTo(metrics);
  CHECK_THAT(metrics.Text(), Catch::Contains("grpc_method=\"grpc.health.v1.Health/Check\"") &&
                                 Catch::Contains("grpc_method=\"other\"") && !Catch::Contains("nobody"));
}

}  // namespace
}  // namespace medley

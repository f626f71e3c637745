#include "coordinator/web/in_process_call.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "coordinator/rpc/caller_metadata.h"
#include "runtime/base/clock.h"
#include "runtime/wire/grpc_request.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(250);

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

struct InProcessCall::Impl {
  std::shared_ptr<grpc::Channel> channel;  // outlives the call
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  const google::protobuf::Message* answer = nullptr;  // to make more of

  // Whether the operation that was begun last was done.
  bool Await(const std::function<bool()>& goes_on = nullptr) {
    void* tag = nullptr;
    bool done = false;
    while (queue.AsyncNext(&tag, &done, ToSystemClock(Now() + kBetweenLooks)) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (goes_on && !goes_on()) context.TryCancel();
    }
    return done;
  }
};

InProcessCall::InProcessCall(const std::shared_ptr<grpc::Channel>& channel,
                             const google::protobuf::MethodDescriptor& method, const std::string& caller,
                             absl::Time caller_until, const google::protobuf::Message& request)
    : impl_(new Impl) {
  impl_->answer = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.output_type());
  impl_->context.AddMetadata(kInProcessMetadata, InProcessProof());
  impl_->context.AddMetadata(kCallerMetadata, caller);
  if (caller_until != absl::InfiniteFuture())
    impl_->context.AddMetadata(kCallerUntilMetadata, absl::StrCat(absl::ToUnixSeconds(caller_until)));
  impl_->channel = channel;
  SendRequestId(impl_->context);
  grpc::GenericStub stub(channel);
  impl_->call = stub.PrepareCall(
      &impl_->context, absl::StrCat("/", method.service()->full_name(), "/", method.name()), &impl_->queue);
  impl_->call->StartCall(nullptr);
  if (!impl_->Await()) return;
  impl_->call->WriteLast(BytesOf(request), grpc::WriteOptions(), nullptr);
  impl_->Await();
}

InProcessCall::~InProcessCall() {
  impl_->context.TryCancel();
  impl_->queue.Shutdown();
  void* tag = nullptr;
  bool done = false;
  while (impl_->queue.Next(&tag, &done)) {
  }
}

std::unique_ptr<google::protobuf::Message> InProcessCall::Next(const std::function<bool()>& goes_on) {
  grpc::ByteBuffer bytes;
  impl_->call->Read(&bytes, nullptr);
  if (!impl_->Await(goes_on)) return nullptr;
  std::unique_ptr<google::protobuf::Message> message(impl_->answer->New());
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok() ||
      !message->ParseFromArray(slice.begin(), static_cast<int>(slice.size())))
    return nullptr;
  return message;
}

absl::Status InProcessCall::Finish() {
  grpc::Status status;
  impl_->call->Finish(&status, nullptr);
  impl_->Await();
  return FromGrpc(status);
}

}  // namespace medley

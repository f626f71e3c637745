#pragma once
#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace medley {

// A call of an rpc that is known by its descriptor alone, with a message or with a stream of them as its answer. One thread.
class InProcessCall {
 public:
  // `caller`, whose certificate is in force until then, is told to the service (caller_metadata.h), and the id of the request that this
  // thread serves.
  InProcessCall(const std::shared_ptr<grpc::Channel>& channel,
                const google::protobuf::MethodDescriptor& method, const std::string& caller,
                absl::Time caller_until, const google::protobuf::Message& request);
  ~InProcessCall();

  // The next message of the answer; null at its end. While none comes, `goes_on` is asked several times a second, and when it says no
  // the call is cancelled.
  std::unique_ptr<google::protobuf::Message> Next(const std::function<bool()>& goes_on);
  // How the call ended. Once, after Next has said null.
  absl::Status Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace medley

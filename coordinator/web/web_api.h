#pragma once
#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "runtime/web/web_server.h"

namespace medley {

// The rpcs of the service Coordinator as JSON over HTTP, under /api/v1: for the dashboard and for scripts. README.md beside this file
// has the forms. Who may call what is what rpc_roles.h says, of the request's caller.
//
// Calls go to `server`, which outlives it, over a channel within the process, with the caller's name. Thread-safe.
class WebApi {
 public:
  using Refused =
      std::function<void(const Identity& who, const std::string& method, const absl::Status& why)>;
  WebApi(grpc::Server& server, Refused refused) : server_(server), refused_(std::move(refused)) {}

  // For paths that begin with /api/v1.
  WebAnswer Answer(const WebRequest& request);

  // Ends the streams that are open, and those to come.
  void Stop() { stopping_ = true; }

 private:
  WebAnswer Call(const google::protobuf::MethodDescriptor& method, const WebRequest& request);

  grpc::Server& server_;
  const Refused refused_;
  std::atomic<bool> stopping_ = false;
};

// What went wrong, as scripts read it: {"error": {"code": "NOT_FOUND", "message": "..."}}, with the status of HTTP that fits.
WebAnswer ErrorAnswer(const absl::Status& status);

}  // namespace medley

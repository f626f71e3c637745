#pragma once
#include <grpcpp/support/server_interceptor.h>

#include <array>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/mutex.h"
#include "runtime/web/open_metrics.h"

namespace medley {

// How many calls of each rpc ended with which code, and how long they took. Thread-safe; outlives the server.
class RpcFigures {
 public:
  void Count(const std::string& method, const std::string& code, double seconds);
  // A call that was refused before it reached its service.
  void CountRefusal();
  // As gRPC names them: grpc_server_call_duration_seconds.
  void AddTo(OpenMetrics& metrics);

  // Counts the calls of a server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Interceptors();

 private:
  struct Calls {
    std::array<uint64_t, 12> within = {};  // kBounds and beyond
    double seconds = 0;
  };
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, Calls> calls_ ABSL_GUARDED_BY(mutex_);  // by method and code
  uint64_t refusals_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace medley

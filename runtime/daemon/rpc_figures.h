#pragma once
#include <grpcpp/support/server_interceptor.h>

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/duration_histogram.h"
#include "runtime/base/mutex.h"
#include "runtime/web/open_metrics.h"

namespace medley {

// How many calls of each rpc ended with which code, and how long they took; what is no rpc of ours (rpc_roles.h) is "other". Thread-safe;
// outlives the server.
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
  Mutex mutex_;
  // By method and code.
  std::map<std::pair<std::string, std::string>, DurationHistogram> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t refusals_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace medley

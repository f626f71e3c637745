#include "runtime/daemon/rpc_figures.h"

#include <grpcpp/support/interceptor.h>

#include <memory>

#include "absl/status/status.h"
#include "runtime/base/clock.h"
#include "runtime/security/rpc_roles.h"

namespace medley {
namespace {

// As gRPC's own figures name what a server does not have: anybody may call anything, and each name would be a label for ever.
constexpr char kOther[] = "other";

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(RpcFigures& figures, const std::string& method)
      : figures_(figures), method_(IsRpc(method) ? method : kOther) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const auto code = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
      figures_.Count(method_, absl::StatusCodeToString(code), absl::ToDoubleSeconds(Now() - began_));
    }
    methods->Proceed();
  }

 private:
  RpcFigures& figures_;
  const std::string method_;
  const absl::Time began_ = Now();
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(RpcFigures& figures) : figures_(figures) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new Interceptor(figures_, info->method());
  }

 private:
  RpcFigures& figures_;
};

}  // namespace

void RpcFigures::Count(const std::string& method, const std::string& code, double seconds) {
  MutexLock lock(mutex_);
  calls_[{method, code}].Add(seconds);
}

void RpcFigures::CountRefusal() {
  MutexLock lock(mutex_);
  ++refusals_;
}

void RpcFigures::AddTo(OpenMetrics& metrics) {
  MutexLock lock(mutex_);
  metrics.Family("grpc_server_call_duration_seconds", OpenMetrics::Type::kHistogram,
                 "How long calls took until they were answered, by rpc and code.");
  for (const auto& [call, calls] : calls_) {
    metrics.AddHistogram(
        {{"grpc_method", call.first.substr(call.first.find_first_not_of('/'))}, {"grpc_status", call.second}},
        calls);
  }
  metrics.Single("medley_refused_calls", OpenMetrics::Type::kCounter,
                 "Calls without a certificate or the role for them.", static_cast<double>(refusals_));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> RpcFigures::Interceptors() {
  return std::make_unique<Factory>(*this);
}

}  // namespace medley

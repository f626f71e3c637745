#include "runtime/security/rpc_roles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/security/certificate.h"

namespace medley {
namespace {

const RpcRole* Find(absl::string_view method) {
  const std::vector<RpcRole>& all = RpcRoles();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const RpcRole& one) { return one.method == method; });
  return found == all.end() ? nullptr : &*found;
}

v1::Role LeastRole(Needs needs) {
  switch (needs) {
    case Needs::kNobody:
      return v1::ROLE_UNSPECIFIED;
    case Needs::kViewer:
      return v1::ROLE_VIEWER;
    case Needs::kOperator:
      return v1::ROLE_OPERATOR;
    case Needs::kAdmin:
      return v1::ROLE_ADMIN;
    case Needs::kAgent:
      return v1::ROLE_AGENT;
    case Needs::kCoordinator:
      return v1::ROLE_COORDINATOR;
  }
  return v1::ROLE_COORDINATOR;
}

bool IsForPeople(v1::Role role) { return role <= v1::ROLE_ADMIN; }

}  // namespace

const std::vector<RpcRole>& RpcRoles() {
  static const auto* table = new std::vector<RpcRole>{
      {"/medley.v1.Coordinator/SubmitJob", Needs::kOperator},
      {"/medley.v1.Coordinator/GetJob", Needs::kViewer},
      {"/medley.v1.Coordinator/ListJobs", Needs::kViewer},
      {"/medley.v1.Coordinator/WatchJob", Needs::kViewer},
      {"/medley.v1.Coordinator/CancelJob", Needs::kOperator},
      {"/medley.v1.Coordinator/ResumeJob", Needs::kOperator},
      {"/medley.v1.Coordinator/ReplanJob", Needs::kOperator},
      {"/medley.v1.Coordinator/HoldJob", Needs::kOperator},
      {"/medley.v1.Coordinator/DeleteJob", Needs::kOperator},
      {"/medley.v1.Coordinator/ForgetNode", Needs::kAdmin},
      {"/medley.v1.Coordinator/DrainNode", Needs::kAdmin},
      {"/medley.v1.Coordinator/UndrainNode", Needs::kAdmin},
      // All that was ever submitted is in it.
      {"/medley.v1.Coordinator/BackUp", Needs::kAdmin},
      // It measures on devices what was not measured yet.
      {"/medley.v1.Coordinator/PlanJob", Needs::kOperator},
      {"/medley.v1.Coordinator/ListNodes", Needs::kViewer},
      {"/medley.v1.Coordinator/ListKernels", Needs::kViewer},
      // It writes files into directories that the call names.
      {"/medley.v1.Coordinator/CheckNodes", Needs::kOperator},
      {"/medley.v1.Coordinator/GetStacks", Needs::kOperator, /*looks=*/true},
      {"/medley.v1.Coordinator/ListLinks", Needs::kViewer},
      {"/medley.v1.Coordinator/MeasureLinks", Needs::kOperator},
      {"/medley.v1.Coordinator/ExplainAllReduce", Needs::kViewer},
      {"/medley.v1.Coordinator/GetPlan", Needs::kViewer},
      {"/medley.v1.Coordinator/GetTrace", Needs::kViewer},
      // A job that is traced goes on as it was.
      {"/medley.v1.Coordinator/TraceSteps", Needs::kOperator, /*looks=*/true},
      {"/medley.v1.Coordinator/ListSteps", Needs::kViewer},
      {"/medley.v1.Coordinator/ListLogs", Needs::kViewer},
      {"/medley.v1.Coordinator/ExportCluster", Needs::kViewer},
      {"/medley.v1.Coordinator/ListAudit", Needs::kAdmin, /*looks=*/true},
      // Who has a token may be a node.
      {"/medley.v1.Coordinator/CreateJoinToken", Needs::kAdmin},
      {"/medley.v1.Coordinator/ListJoinTokens", Needs::kAdmin, /*looks=*/true},
      {"/medley.v1.Coordinator/RevokeJoinToken", Needs::kAdmin},
      {"/medley.v1.Registry/Register", Needs::kAgent},
      {"/medley.v1.Registry/Renew", Needs::kAgent},
      {"/medley.v1.Registry/Leave", Needs::kAgent},
      {"/medley.v1.Registry/Deregister", Needs::kAgent},
      // Who joins has no certificate: a token says who it is.
      {"/medley.v1.Registry/GetAuthority", Needs::kNobody},
      {"/medley.v1.Registry/Join", Needs::kNobody},
      {"/medley.v1.Registry/RenewCertificate", Needs::kAgent},
      {"/medley.v1.Agent/Prepare", Needs::kCoordinator},
      {"/medley.v1.Agent/Start", Needs::kCoordinator},
      {"/medley.v1.Agent/Stop", Needs::kCoordinator},
      {"/medley.v1.Agent/DescribeKernels", Needs::kCoordinator},
      {"/medley.v1.Agent/DescribeStacks", Needs::kCoordinator},
      {"/medley.v1.Agent/TraceTask", Needs::kCoordinator},
      {"/medley.v1.Agent/CheckNode", Needs::kCoordinator},
      // gRPC's own. Probes of health have no certificates.
      {"/grpc.health.v1.Health/Check", Needs::kNobody},
      {"/grpc.health.v1.Health/Watch", Needs::kNobody},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Needs::kViewer},
  };
  return *table;
}

bool IsRpc(absl::string_view method) { return Find(method) != nullptr; }

bool MayCall(v1::Role role, absl::string_view method) {
  const RpcRole* rpc = Find(method);
  if (rpc == nullptr) return false;
  const v1::Role least = LeastRole(rpc->needs);
  return role == least || (IsForPeople(least) && IsForPeople(role) && role > least) ||
         least == v1::ROLE_UNSPECIFIED;
}

bool ChangesSomething(absl::string_view method) {
  const RpcRole* rpc = Find(method);
  return rpc != nullptr && !rpc->looks && (rpc->needs == Needs::kOperator || rpc->needs == Needs::kAdmin);
}

std::string WhatItNeeds(absl::string_view method) {
  const RpcRole* rpc = Find(method);
  return rpc == nullptr ? "is a call that nobody may make"
                        : absl::StrCat("needs the role ", RoleName(LeastRole(rpc->needs)));
}

}  // namespace medley

#include "runtime/security/rpc_roles.h"

#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/security/certificate.h"

namespace medley {
namespace {

constexpr v1::Role kPeople[] = {v1::ROLE_UNSPECIFIED, v1::ROLE_VIEWER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN};

TEST_CASE("the table has every rpc of our services, once, and none that there is not") {
  std::multiset<std::string> known, there;
  for (const RpcRole& rpc : RpcRoles()) {
    if (!absl::StartsWith(rpc.method, "/grpc.")) known.insert(rpc.method);
  }
  for (const google::protobuf::FileDescriptor* file :
       {v1::SubmitJobRequest::descriptor()->file(), v1::PrepareRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m)
        there.insert(
            absl::StrCat("/", file->service(s)->full_name(), "/", file->service(s)->method(m)->name()));
    }
  }
  CHECK(known == there);
}

TEST_CASE("who may more, may all that who may less does; daemons do what daemons do") {
  for (const RpcRole& rpc : RpcRoles()) {
    INFO(rpc.method);
    for (int i = 1; i < 4; ++i) CHECK(MayCall(kPeople[i - 1], rpc.method) <= MayCall(kPeople[i], rpc.method));
    const bool is_daemons = rpc.needs == Needs::kAgent || rpc.needs == Needs::kCoordinator;
    CHECK(MayCall(v1::ROLE_ADMIN, rpc.method) != is_daemons);
    CHECK(MayCall(v1::ROLE_AGENT, rpc.method) == (rpc.needs == Needs::kAgent || rpc.needs == Needs::kNobody));
    CHECK(MayCall(v1::ROLE_COORDINATOR, rpc.method) ==
          (rpc.needs == Needs::kCoordinator || rpc.needs == Needs::kNobody));
    CHECK(MayCall(v1::ROLE_UNSPECIFIED, rpc.method) == (rpc.needs == Needs::kNobody));
  }
  CHECK_FALSE(MayCall(v1::ROLE_ADMIN, "/medley.v1.Coordinator/NoSuchThing"));
  CHECK_FALSE(MayCall(v1::ROLE_ADMIN, ""));
}

TEST_CASE("what looks at things changes nothing; what has another name does") {
  for (const RpcRole& rpc : RpcRoles()) {
    const std::string name = std::string(rpc.method).substr(std::string(rpc.method).rfind('/') + 1);
    if (!absl::StartsWith(rpc.method, "/medley.v1.Coordinator/")) continue;
    INFO(rpc.method);
    bool looks = false;
    for (const char* prefix : {"Get", "List", "Watch", "Explain", "Export", "Trace"})
      looks = looks || absl::StartsWith(name, prefix);
    CHECK(ChangesSomething(rpc.method) != looks);
  }
  CHECK(WhatItNeeds("/medley.v1.Coordinator/ForgetNode") == "needs the role admin");
}

}  // namespace
}  // namespace medley

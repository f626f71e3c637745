#pragma once
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// Who may call what: one table, of all rpcs of all services.

enum class Needs { kNobody, kViewer, kOperator, kAdmin, kAgent, kCoordinator };

struct RpcRole {
  const char* method;  // "/medley.v1.Coordinator/SubmitJob"
  Needs needs;
  bool looks = false;  // it needs more than a viewer, and changes nothing all the same
};

const std::vector<RpcRole>& RpcRoles();

// Whether the table has it.
bool IsRpc(absl::string_view method);

// Whether `role` may call `method`. A method that the table does not have nobody may.
bool MayCall(v1::Role role, absl::string_view method);

// Whether a call changes something, and is written down.
bool ChangesSomething(absl::string_view method);

// For who may not: "needs the role operator".
std::string WhatItNeeds(absl::string_view method);

}  // namespace medley

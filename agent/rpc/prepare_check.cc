#include "agent/rpc/prepare_check.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/job_paths.h"
#include "runtime/wire/message_protection_codec.h"
#include "runtime/wire/plan_codec.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

// Fewer could be guessed.
constexpr size_t kLeastSecretBytes = 16;

absl::Status CheckProtection(const v1::PrepareRequest& request, MessageProtection least) {
  const MessageProtection asked =
      DecodeMessageProtection(request.train().spec().communication().message_protection());
  // What a probe sends is worth nothing to anybody.
  if (request.has_probe() || asked >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "train.spec.communication.message_protection: ", NameOf(asked), "; this node accepts no less than ",
      NameOf(least), " (message_protection in its agent's configuration)"));
}

}  // namespace

absl::Status CheckPrepare(const v1::PrepareRequest& request,
                          const std::vector<std::string>& allowed_directories,
                          MessageProtection least_protection) {
  RETURN_IF_ERROR(ValidateMessage(request));
  RETURN_IF_ERROR(CheckJobPaths(request.has_profile() ? request.profile().spec() : request.train().spec(),
                                allowed_directories, {{"resume_from", request.train().resume_from()}}));
  if (request.has_train() + request.has_profile() + request.has_probe() != 1) {
    return absl::InvalidArgumentError("exactly one of train, profile and probe must be given");
  }
  const bool has_peers = request.has_probe() || DeviceCountOf(request.train().plan()) > 1;
  if (!has_peers) return absl::OkStatus();
  RETURN_IF_ERROR(CheckProtection(request, least_protection));
  if (request.attempt_secret().size() >= kLeastSecretBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attempt_secret: has ", request.attempt_secret().size(),
                                                 " bytes; a task with peers needs at least ",
                                                 kLeastSecretBytes));
}

}  // namespace medley

#include "coordinator/rpc/audit.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/rpc/caller_metadata.h"
#include "runtime/base/clock.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/log/log.h"
#include "runtime/log/request_id.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

constexpr int kRefusalsOfAMinute = 60;

// The text of the first of `names` that is a field of the message.
std::string TextField(const google::protobuf::Message& message, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const google::protobuf::FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && field->type() == google::protobuf::FieldDescriptor::TYPE_STRING &&
        !field->is_repeated())
      return message.GetReflection()->GetString(message, field);
  }
  return "";
}

// A record of a call of `method`, by whom and where from.
v1::AuditRecord RecordOf(const grpc::ServerContext& context, const std::string& method) {
  v1::AuditRecord record;
  record.set_identity(ValidUtf8(CallerOf(context)));
  const std::string peer = context.peer();
  record.set_peer(peer.substr(peer.find(':') + 1));
  record.set_method(method);
  return record;
}

std::string Metadata(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  return found == context.client_metadata().end() ? ""
                                                  : std::string(found->second.data(), found->second.size());
}

bool IsOfWebServer(const grpc::ServerContext& context) {
  return Metadata(context, kInProcessMetadata) == InProcessProof();
}

}  // namespace

std::string ShownCertificate(const grpc::ServerContext& context) {
  const auto authentication = context.auth_context();
  if (authentication == nullptr) return "";
  const auto shown = authentication->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return shown.empty() ? "" : std::string(shown.front().data(), shown.front().size());
}

std::string CallerOf(const grpc::ServerContext& context) {
  if (IsOfWebServer(context)) return Metadata(context, kCallerMetadata);
  const absl::StatusOr<Certificate> shown = RecallCertificate(ShownCertificate(context));
  return shown.ok() ? shown->identity.name : "";
}

absl::Time CallerUntil(const grpc::ServerContext& context) {
  if (IsOfWebServer(context)) {
    int64_t seconds = 0;
    return absl::SimpleAtoi(Metadata(context, kCallerUntilMetadata), &seconds)
               ? absl::FromUnixSeconds(seconds)
               : absl::InfiniteFuture();
  }
  const absl::StatusOr<Certificate> shown = RecallCertificate(ShownCertificate(context));
  return shown.ok() ? shown->valid_until : absl::InfiniteFuture();
}

std::string ClientOf(const grpc::ServerContext& context) {
  const std::string caller = CallerOf(context), peer = context.peer();
  return caller.empty() ? peer.substr(0, peer.rfind(':')) : caller;
}

absl::Status MayBeNode(const grpc::ServerContext& context, const std::string& node) {
  const std::string pem = ShownCertificate(context);
  if (pem.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Certificate shown, RecallCertificate(pem));
  const std::string& name = shown.identity.name;
  if (name == node || name == "*") return absl::OkStatus();
  if (absl::StartsWith(name, "spiffe://") && absl::EndsWith(name, absl::StrCat("/", node)))
    return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("node.name: \"", node,
                   "\" is not the one that the agent's certificate is for, which is \"", name, "\""));
}

void Audit::Write(const grpc::ServerContext& context, const google::protobuf::Message& request,
                  const google::protobuf::Message& response, const grpc::Status& status) {
  const std::string name(absl::StripSuffix(request.GetDescriptor()->name(), "Request"));
  if (!ChangesSomething(absl::StrCat("/medley.v1.Coordinator/", name))) return;
  v1::AuditRecord record = RecordOf(context, name);
  record.set_subject(TextField(request, {"job_id", "token_id"}));
  if (record.subject().empty()) record.set_subject(TextField(response, {"token_id"}));
  if (record.subject().empty()) record.set_subject(TextField(request, {"node"}));
  if (record.subject().empty()) record.set_subject(TextField(response, {"id"}));
  const absl::Status result = FromGrpc(status);
  record.set_result(absl::StatusCodeToString(result.code()));
  record.set_message(std::string(result.message()));
  const std::string job = TextField(request, {"job_id"});
  LogInfo(absl::StrCat(name, record.subject().empty() ? "" : " of ", record.subject(), " by ",
                       record.identity().empty() ? record.peer() : record.identity(), ": ", record.result(),
                       record.message().empty() ? "" : ": ", record.message()),
          {.job = name == "SubmitJob" ? record.subject() : job});
  Append(std::move(record));
}

void Audit::WriteCertified(const grpc::ServerContext& context, const std::string& method,
                           const std::string& node, const std::string& message) {
  v1::AuditRecord record = RecordOf(context, method);
  record.set_subject(node);
  record.set_result(absl::StatusCodeToString(absl::StatusCode::kOk));
  record.set_message(message);
  LogInfo(absl::StrCat(method, " of ", node, message.empty() ? "" : " ", message), {.node = node});
  Append(std::move(record));
}

void Audit::WriteRefusal(const Identity& who, const std::string& method, const absl::Status& why) {
  Quota& quota = who.name.empty() ? unknown_ : known_;
  int left_out = 0;
  {
    MutexLock lock(mutex_);
    if (Now() - quota.minute >= absl::Minutes(1)) quota = {.minute = Now(), .left_out = quota.left_out};
    if (++quota.of_minute > kRefusalsOfAMinute) {
      ++quota.left_out;
      return;
    }
    left_out = std::exchange(quota.left_out, 0);
  }
  v1::AuditRecord record;
  record.set_message(ValidUtf8(
      left_out == 0 ? std::string(why.message())
                    : absl::StrCat(why.message(), " (and ", left_out, " more refusals before this one)")));
  record.set_identity(ValidUtf8(who.name));
  // Whoever knocks chooses what it asks for.
  record.set_method(IsRpc(method) ? method.substr(method.rfind('/') + 1) : "(no such call)");
  record.set_result(absl::StatusCodeToString(why.code()));
  if (Append(std::move(record))) return;
  MutexLock lock(mutex_);
  quota.left_out += left_out;  // the next one says so
}

void Audit::DropOlderThan(absl::Duration age) {
  const double now_seconds = UnixSecondsNow();
  const absl::StatusOr<int64_t> dropped =
      store_.DropAudit(now_seconds - absl::ToDoubleSeconds(age), now_seconds);
  if (!dropped.ok()) {
    LogError(absl::StrCat("what is older than audit_days was not dropped from the audit: ",
                          dropped.status().message()));
  } else if (*dropped > 0) {
    LogInfo(absl::StrCat("dropped ", Counted(*dropped, "record"),
                         " of the audit that were older than audit_days"));
  }
}

bool Audit::Append(v1::AuditRecord record) {
  record.set_at_seconds(UnixSecondsNow());
  record.set_request_id(CurrentRequestId());
  const absl::Status written = store_.AppendAudit(record);
  if (!written.ok())
    LogError(absl::StrCat("not written to the audit: ", record.method(), " ", record.subject(), " by \"",
                          record.identity(), "\": ", written.message()));
  return written.ok();
}

}  // namespace medley

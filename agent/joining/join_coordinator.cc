#include "agent/joining/join_coordinator.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/credentials.h"
#include "runtime/security/join_token.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_status.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kCallTime = absl::Seconds(20);
constexpr absl::Duration kFirstRetry = absl::Seconds(1), kLongestRetry = absl::Seconds(15);

absl::StatusOr<JoinTokenText> ReadToken(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadPemFile("join_token_file", file));
  absl::StatusOr<JoinTokenText> token = ParseJoinToken(text);
  RETURN_IF_ERROR(Annotate(token.status(), absl::StrCat("join_token_file: ", file)));
  return token;
}

absl::Status OfFile(const char* field, const absl::Status& status) {
  return status.ok() ? status
                     : absl::FailedPreconditionError(
                           absl::StrCat("tls.", field, ": the agent joins, and ", status.message()));
}

// Whether a file can be written there, by one beside it.
absl::Status TryToWrite(const char* field, const std::string& file) {
  std::error_code error;
  if (fs::is_directory(file, error))
    return absl::FailedPreconditionError(absl::StrCat("tls.", field, ": ", file, " is a directory"));
  const std::string parent = fs::path(file).parent_path().string();
  if (!parent.empty()) RETURN_IF_ERROR(OfFile(field, CreateDirectories(parent)));
  const std::string beside = file + ".joining";
  RETURN_IF_ERROR(OfFile(field, WriteFileAtomically(beside, "")));
  fs::remove(beside, error);
  return absl::OkStatus();
}

// The node's key, which is there from an earlier try or is made.
absl::StatusOr<std::string> KeyOf(const std::string& file) {
  std::error_code unseen;  // what may not be looked at may not be written either, which says why
  if (fs::exists(file, unseen)) {
    ASSIGN_OR_RETURN(std::string key, ReadPemFile("tls.key", file));
    RETURN_IF_ERROR(Annotate(PublicKeyOf(key).status(), absl::StrCat("tls.key: ", file)));
    return key;
  }
  ASSIGN_OR_RETURN(std::string key, MakeKey());
  RETURN_IF_ERROR(OfFile("key", WriteFileAtomically(file, key, kOwnerAlone)));
  return key;
}

grpc::Status Call(auto rpc, const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials,
                  const auto& request, auto& response) {
  const auto stub = v1::Registry::NewStub(OpenChannel(address, {.credentials = std::move(credentials)}));
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + kCallTime));
  return (stub.get()->*rpc)(&context, request, &response);
}

// One try. Unavailable: the coordinator cannot be reached.
absl::StatusOr<v1::JoinResponse> Ask(const v1::AgentConfig& config, const JoinTokenText& token,
                                     const v1::JoinRequest& request) {
  const std::string& address = config.coordinator_address();
  v1::GetAuthorityResponse shown;
  RETURN_IF_ERROR(FromGrpc(
      Call(&v1::Registry::Stub::GetAuthority, address, UnverifiedTls(), v1::GetAuthorityRequest(), shown)));
  const std::string authority = WithFingerprint(shown.authority(), token.authority);
  if (authority.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("who answers at ", address,
                     " is not the coordinator that made the join token: its authority is another. The token "
                     "was not shown to "
                     "it; compare coordinator_address, or have another token made"));
  v1::JoinResponse answer;
  RETURN_IF_ERROR(
      FromGrpc(Call(&v1::Registry::Stub::Join, address,
                    AnonymousTls(config.tls(), authority, v1::ROLE_COORDINATOR), request, answer)));
  return answer;
}

bool IsWorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

bool NeedsToJoin(const v1::AgentConfig& config) {
  if (config.join_token_file().empty()) return false;
  std::error_code error;
  if (!fs::exists(config.tls().certificate(), error)) return true;
  const absl::StatusOr<std::string> pem = ReadPemFile("tls.certificate", config.tls().certificate());
  if (!pem.ok()) return false;
  const absl::StatusOr<Certificate> found = ReadCertificate(*pem);
  return found.ok() && absl::Now() > found->valid_until;
}

absl::Status CheckJoining(const v1::AgentConfig& config) {
  if (config.join_token_file().empty()) return absl::OkStatus();
  if (!config.has_tls())
    return absl::InvalidArgumentError(
        "join_token_file: needs tls, whose certificate, key and authority say where the files are to be "
        "written");
  return NeedsToJoin(config) ? ReadToken(config.join_token_file()).status() : absl::OkStatus();
}

absl::Status JoinCoordinator(const v1::AgentConfig& config,
                             const std::function<bool(absl::Duration)>& is_stopped_within) {
  const v1::TlsConfig& tls = config.tls();
  ASSIGN_OR_RETURN(const JoinTokenText token, ReadToken(config.join_token_file()));
  RETURN_IF_ERROR(TryToWrite("key", tls.key()));
  RETURN_IF_ERROR(TryToWrite("certificate", tls.certificate()));
  RETURN_IF_ERROR(TryToWrite("authority", tls.authority()));
  ASSIGN_OR_RETURN(const std::string key, KeyOf(tls.key()));
  v1::JoinRequest request;
  request.set_token_id(token.id);
  request.set_token_secret(token.secret);
  request.set_node(config.name());
  ASSIGN_OR_RETURN(*request.mutable_certificate_request(), MakeCertificateRequest(key));
  LogInfo(absl::StrCat("joining as ", config.name(), " at ", config.coordinator_address()));
  absl::StatusOr<v1::JoinResponse> answer = Ask(config, token, request);
  for (absl::Duration wait = kFirstRetry; IsWorthRetrying(answer.status());
       wait = std::min(2 * wait, kLongestRetry)) {
    LogWarning(absl::StrCat("cannot join at ", config.coordinator_address(), ": ", answer.status().message(),
                            "; trying on"));
    if (is_stopped_within(wait)) return absl::CancelledError("stopped before the agent has joined");
    answer = Ask(config, token, request);
  }
  // Another start would be refused alike.
  if (absl::IsPermissionDenied(answer.status()))
    return absl::InvalidArgumentError(
        absl::StrCat("join_token_file: ", config.join_token_file(), ": ", answer.status().message()));
  RETURN_IF_ERROR(Annotate(answer.status(), absl::StrCat("cannot join at ", config.coordinator_address())));
  RETURN_IF_ERROR(OfFile("authority", WriteFileAtomically(tls.authority(), answer->authority())));
  RETURN_IF_ERROR(OfFile("certificate", WriteFileAtomically(tls.certificate(), answer->certificate())));
  LogInfo(absl::StrCat("joined; the certificate is ", tls.certificate()));
  return absl::OkStatus();
}

}  // namespace medley

#include "coordinator/joining/joining.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/authority.h"
#include "runtime/security/certificate_request.h"
#include "runtime/security/join_token.h"

namespace medley {
namespace {

constexpr uint32_t kCertificateHours = 2160;
constexpr double kTokenSeconds = 3600;
constexpr double kForgetAfterSeconds = 30.0 * 24 * 3600;

std::string Moment(double unix_seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(static_cast<int64_t>(unix_seconds)),
                          absl::UTCTimeZone());
}

// A certificate of an agent, which `tls` lets in. InvalidArgument: the files of the configuration do not fit each other, names them; the
// public key or the name cannot be certified.
absl::StatusOr<v1::JoinResponse> Certify(const v1::JoinConfig& join, const v1::TlsConfig& tls,
                                         const std::string& public_key, const std::string& name,
                                         const std::vector<std::string>& hosts) {
  ASSIGN_OR_RETURN(const std::string signers, ReadPemFile("join.certificate", join.certificate()));
  ASSIGN_OR_RETURN(const std::string key, ReadPemFile("join.key", join.key()));
  v1::JoinResponse made;
  ASSIGN_OR_RETURN(*made.mutable_authority(), ReadPemFile("tls.authority", tls.authority()));
  const uint32_t hours = join.certificate_hours() == 0 ? kCertificateHours : join.certificate_hours();
  absl::StatusOr<std::string> certificate =
      IssueFor({.key = key, .certificate = signers}, public_key, {.name = name, .role = v1::ROLE_AGENT},
               hosts, absl::Hours(hours));
  RETURN_IF_ERROR(
      Annotate(certificate.status(), absl::StrCat("join: ", join.certificate(), " with ", join.key())));
  made.set_certificate(absl::StrCat(*certificate, SignedByOthers(signers)));
  const std::string why = WhyNotTrusted(made.certificate(), made.authority());
  if (why.empty()) return made;
  return absl::InvalidArgumentError(absl::StrCat("join.certificate: ", join.certificate(),
                                                 " signs nothing that tls.authority, ", tls.authority(),
                                                 ", stands for: ", why));
}

// What went wrong with files that were in order once is not the caller's to put right.
template <typename Value>
absl::StatusOr<Value> OfConfiguration(absl::StatusOr<Value> made) {
  if (absl::IsInvalidArgument(made.status()))
    return absl::FailedPreconditionError(
        absl::StrCat("the coordinator's configuration: ", made.status().message()));
  return made;
}

absl::Status Refuse(const v1::JoinRequest& request, absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("join token \"", request.token_id(), "\" is refused to node ", request.node(), ": ", why));
}

// Whether the answer to who has spent a token may be given again: to the same key, while it is good for something.
bool IsRepeat(const v1::JoinTokenRecord& record, const v1::JoinRequest& request,
              const std::string& public_key, double now_seconds) {
  if (record.public_key() != public_key || record.token().used_by() != request.node()) return false;
  const absl::StatusOr<Certificate> given = ReadCertificate(record.answer().certificate());
  return given.ok() && absl::ToUnixSeconds(given->valid_until) > now_seconds;
}

// "": the token may be spent, or was by the same request.
std::string WhyRefused(const v1::JoinTokenRecord& record, const v1::JoinRequest& request,
                       const std::string& public_key, double now_seconds) {
  const v1::JoinToken& token = record.token();
  if (token.revoked_at_seconds() > 0)
    return absl::StrCat("it was revoked at ", Moment(token.revoked_at_seconds()));
  if (token.used_at_seconds() > 0) {
    return IsRepeat(record, request, public_key, now_seconds)
               ? ""
               : absl::StrCat("it was used by node ", token.used_by(), " at ",
                              Moment(token.used_at_seconds()), ", and is good for one");
  }
  if (now_seconds > token.expires_at_seconds())
    return absl::StrCat("it expired at ", Moment(token.expires_at_seconds()));
  if (!token.node().empty() && token.node() != request.node())
    return absl::StrCat("it is for node ", token.node());
  return "";
}

}  // namespace

absl::Status CheckJoin(const v1::CoordinatorConfig& config) {
  if (!config.has_join()) return absl::OkStatus();
  if (!config.has_tls())
    return absl::InvalidArgumentError(
        "join: needs tls, by whose authority agents and coordinator know each other");
  // What an agent would get.
  ASSIGN_OR_RETURN(const std::string key, MakeKey());
  ASSIGN_OR_RETURN(const std::string public_key, PublicKeyOf(key));
  return Certify(config.join(), config.tls(), public_key, "check", {}).status();
}

absl::Status Joining::CheckConfigured() const {
  if (options_.join.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "join: is not set in the coordinator's configuration; give it certificate and key of the authority "
      "that "
      "signs agents' certificates");
}

absl::StatusOr<v1::CreateJoinTokenResponse> Joining::CreateToken(const v1::CreateJoinTokenRequest& request,
                                                                 const std::string& creator) {
  RETURN_IF_ERROR(CheckConfigured());
  ASSIGN_OR_RETURN(const std::string own,
                   OfConfiguration(ReadPemFile("tls.certificate", options_.tls.certificate())));
  ASSIGN_OR_RETURN(const std::string authorities,
                   OfConfiguration(ReadPemFile("tls.authority", options_.tls.authority())));
  ASSIGN_OR_RETURN(const std::string authority, OfConfiguration(AuthorityFingerprint(own, authorities)));
  ASSIGN_OR_RETURN(const JoinTokenText text, NewJoinToken(authority));
  const double now = options_.now_seconds();
  v1::JoinTokenRecord record;
  v1::JoinToken& token = *record.mutable_token();
  token.set_id(text.id);
  token.set_node(request.node());
  token.set_created_by(creator);
  token.set_created_at_seconds(now);
  token.set_expires_at_seconds(now + (request.valid_seconds() > 0 ? request.valid_seconds() : kTokenSeconds));
  record.set_secret_hash(HashOfSecret(text.secret));
  RETURN_IF_ERROR(store_.InsertJoinToken(record, now - kForgetAfterSeconds));
  v1::CreateJoinTokenResponse response;
  response.set_token_id(text.id);
  response.set_token(FormatJoinToken(text));
  response.set_expires_at_seconds(token.expires_at_seconds());
  return response;
}

absl::StatusOr<std::vector<v1::JoinToken>> Joining::ListTokens() {
  RETURN_IF_ERROR(CheckConfigured());
  ASSIGN_OR_RETURN(const std::vector<v1::JoinTokenRecord> records, store_.ListJoinTokens());
  std::vector<v1::JoinToken> tokens;
  for (const v1::JoinTokenRecord& record : records) tokens.push_back(record.token());
  return tokens;
}

absl::Status Joining::RevokeToken(const std::string& id) {
  RETURN_IF_ERROR(CheckConfigured());
  return store_.ChangeJoinToken(id, [&](v1::JoinTokenRecord& record) {
    if (record.token().revoked_at_seconds() == 0)
      record.mutable_token()->set_revoked_at_seconds(options_.now_seconds());
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::GetAuthorityResponse> Joining::GetAuthority() const {
  RETURN_IF_ERROR(CheckConfigured());
  v1::GetAuthorityResponse response;
  ASSIGN_OR_RETURN(*response.mutable_authority(),
                   OfConfiguration(ReadPemFile("tls.authority", options_.tls.authority())));
  return response;
}

absl::StatusOr<v1::JoinResponse> Joining::Join(const v1::JoinRequest& request) {
  RETURN_IF_ERROR(CheckConfigured());
  const absl::StatusOr<std::string> public_key = ReadCertificateRequest(request.certificate_request());
  RETURN_IF_ERROR(Annotate(public_key.status(), "certificate_request"));
  ASSIGN_OR_RETURN(const std::string own,
                   OfConfiguration(ReadPemFile("tls.certificate", options_.tls.certificate())));
  const bool is_alive = options_.is_alive(request.node());
  v1::JoinResponse answer;
  const absl::Status spent =
      store_.ChangeJoinToken(request.token_id(), [&](v1::JoinTokenRecord& record) -> absl::Status {
        if (!HasHash(request.token_secret(), record.secret_hash()))
          return absl::NotFoundError("another secret");
        const double now = options_.now_seconds();
        if (const std::string why = WhyRefused(record, request, *public_key, now); !why.empty())
          return Refuse(request, why);
        v1::JoinToken& token = *record.mutable_token();
        if (token.used_at_seconds() == 0) {
          if (token.node().empty() && is_alive)
            return Refuse(request,
                          absl::StrCat("an agent of this name is alive; medley join-token create --node ",
                                       request.node(), " makes a token that may replace it"));
          // Browsers look at hosts alone: no agent gets what stands for the coordinator.
          const bool is_own = IsForHost(own, request.node());
          ASSIGN_OR_RETURN(
              *record.mutable_answer(),
              OfConfiguration(Certify(*options_.join, options_.tls, *public_key, request.node(),
                                      is_own ? std::vector<std::string>() : std::vector{request.node()})));
          record.set_public_key(*public_key);
          token.set_used_at_seconds(now);
          token.set_used_by(request.node());
        }
        answer = record.answer();
        return absl::OkStatus();
      });
  // Who does not have the secret does not learn whether there is such a token.
  if (absl::IsNotFound(spent))
    return Refuse(request, "there is none of this id and secret; medley join-token create makes one");
  RETURN_IF_ERROR(spent);
  return answer;
}

absl::StatusOr<v1::JoinResponse> Joining::Renew(const v1::RenewCertificateRequest& request,
                                                absl::string_view shown) const {
  RETURN_IF_ERROR(CheckConfigured());
  const absl::StatusOr<std::string> public_key = ReadCertificateRequest(request.certificate_request());
  RETURN_IF_ERROR(Annotate(public_key.status(), "certificate_request"));
  const absl::StatusOr<Certificate> before = RecallCertificate(shown);
  if (!before.ok()) return absl::PermissionDeniedError("a certificate is renewed for who shows one");
  if (before->identity.name == "*")
    return absl::PermissionDeniedError(
        "a certificate for any node is not renewed; join tokens are for one each");
  return OfConfiguration(
      Certify(*options_.join, options_.tls, *public_key, before->identity.name, before->hosts));
}

}  // namespace medley

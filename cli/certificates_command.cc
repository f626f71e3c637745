#include "cli/certificates_command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/text_table.h"
#include "nlohmann/json.hpp"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/authority.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

constexpr char kAuthority[] = "/authority.pem", kAuthorityKey[] = "/authority-key.pem";
constexpr char kCertificate[] = "/certificate.pem", kKey[] = "/key.pem";

struct CertificatesCommand {
  std::string directory, authority, name, role;
  std::vector<std::string> hosts;
  int days = 0;
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read"));
  return text.str();
}

// A key before its certificate, so that whoever reads both again has them both.
absl::Status WritePair(const std::string& key_file, const std::string& certificate_file,
                       const KeyAndCertificate& pair) {
  RETURN_IF_ERROR(WriteFileAtomically(key_file, pair.key, kOwnerAlone));
  return WriteFileAtomically(certificate_file, pair.certificate);
}

absl::Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  return error ? absl::InvalidArgumentError(absl::StrCat(directory, " cannot be made: ", error.message()))
               : absl::OkStatus();
}

absl::Status RefuseToReplace(const std::string& file, const char* instead) {
  std::error_code unseen;  // what may not be looked at may not be written either, which says why
  return fs::exists(file, unseen)
             ? absl::InvalidArgumentError(absl::StrCat(file, " is there already; ", instead))
             : absl::OkStatus();
}

std::string Day(absl::Time time) { return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone()); }

absl::Status ShowCertificate(const Connection& connection, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string pem, ReadText(file));
  const absl::StatusOr<Certificate> read = ReadCertificate(pem);
  RETURN_IF_ERROR(Annotate(read.status(), file));
  const std::string role = read->identity.role == v1::ROLE_UNSPECIFIED ? "" : RoleName(read->identity.role);
  if (connection.output == Output::kJson) {
    const nlohmann::json shown = {{"file", file},
                                  {"identity", read->identity.name},
                                  {"role", role},
                                  {"hosts", read->hosts},
                                  {"valid_from", absl::FormatTime(read->valid_from, absl::UTCTimeZone())},
                                  {"valid_until", absl::FormatTime(read->valid_until, absl::UTCTimeZone())}};
    Print(shown.dump() + "\n");
    return absl::OkStatus();
  }
  const absl::Duration left = read->valid_until - absl::Now();
  Print(FormatFacts(
      {{"certificate", file},
       {"identity", read->identity.name},
       {"role", role.empty() ? "none of its own" : role},
       {"hosts", read->hosts.empty() ? "none" : absl::StrJoin(read->hosts, ", ")},
       {"in force", absl::StrCat(Day(read->valid_from), " to ", Day(read->valid_until),
                                 left < absl::ZeroDuration()
                                     ? ": it is over"
                                     : absl::StrCat(", ", absl::ToInt64Hours(left) / 24, " days left"))}},
      connection.columns));
  return absl::OkStatus();
}

absl::Status Init(const Connection& connection, const CertificatesCommand& command) {
  RETURN_IF_ERROR(
      RefuseToReplace(command.directory + kAuthorityKey, "another authority needs another folder"));
  RETURN_IF_ERROR(MakeDirectory(command.directory));
  ASSIGN_OR_RETURN(const KeyAndCertificate made, MakeAuthority(command.name, absl::Hours(24) * command.days));
  RETURN_IF_ERROR(WritePair(command.directory + kAuthorityKey, command.directory + kAuthority, made));
  RETURN_IF_ERROR(ShowCertificate(connection, command.directory + kAuthority));
  Note(connection,
       absl::StrCat("keep ", command.directory, kAuthorityKey, " safe: who has it can be anybody"));
  return absl::OkStatus();
}

absl::StatusOr<KeyAndCertificate> ReadAuthority(const std::string& directory) {
  ASSIGN_OR_RETURN(std::string key, ReadText(directory + kAuthorityKey));
  ASSIGN_OR_RETURN(std::string certificate, ReadText(directory + kAuthority));
  return KeyAndCertificate{std::move(key), std::move(certificate)};
}

// Writes the folder of somebody.
absl::Status IssueTo(const Connection& connection, const CertificatesCommand& command,
                     const KeyAndCertificate& authority, const Identity& identity,
                     const std::vector<std::string>& hosts) {
  ASSIGN_OR_RETURN(const KeyAndCertificate made,
                   Issue(authority, identity, hosts, absl::Hours(24) * command.days));
  RETURN_IF_ERROR(MakeDirectory(command.directory));
  RETURN_IF_ERROR(WriteFileAtomically(command.directory + kAuthority, authority.certificate));
  RETURN_IF_ERROR(WritePair(command.directory + kKey, command.directory + kCertificate, made));
  return ShowCertificate(connection, command.directory + kCertificate);
}

absl::Status IssueNew(const Connection& connection, const CertificatesCommand& command) {
  RETURN_IF_ERROR(RefuseToReplace(command.directory + kCertificate, "medley certs renew replaces it"));
  Identity identity{.name = command.name};
  v1::Role_Parse(absl::StrCat("ROLE_", absl::AsciiStrToUpper(command.role)), &identity.role);
  ASSIGN_OR_RETURN(const KeyAndCertificate authority, ReadAuthority(command.authority));
  return IssueTo(connection, command, authority, identity, command.hosts);
}

absl::Status Renew(const Connection& connection, const CertificatesCommand& command) {
  ASSIGN_OR_RETURN(const std::string pem, ReadText(command.directory + kCertificate));
  const absl::StatusOr<Certificate> before = ReadCertificate(pem);
  RETURN_IF_ERROR(Annotate(before.status(), command.directory + kCertificate));
  // The folder may be its owner's to write: who it is was for the authority to say.
  ASSIGN_OR_RETURN(const KeyAndCertificate authority, ReadAuthority(command.authority));
  if (const std::string why = WhyNotSignedBy(pem, authority.certificate); !why.empty())
    return absl::InvalidArgumentError(absl::StrCat(command.directory, kCertificate, ": is not signed by ",
                                                   command.authority, ", and is not renewed: ", why));
  return IssueTo(connection, command, authority, before->identity, before->hosts);
}

}  // namespace

void AddCertificatesCommand(CLI::App& app, const Connection& connection,
                            std::function<absl::Status()>& action) {
  const auto command = std::make_shared<CertificatesCommand>();
  CLI::App* certs =
      app.add_subcommand("certs", "a small certificate authority, and certificates for daemons and people");
  certs->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, auto run) {
    CLI::App* made = certs->add_subcommand(name, what);
    made->callback([&action, &connection, command, run] {
      action = [&connection, command, run] { return run(connection, *command); };
    });
    return made;
  };
  const auto days = [&](CLI::App& of, int usual) {
    of.add_option_function<int>(
          "--days", [command](const int& given) { command->days = given; },
          absl::StrCat("in force for so many; default: ", usual))
        ->check(CLI::Range(1, 36500));
    of.preparse_callback([command, usual](size_t) { command->days = usual; });
  };
  const auto by = [&](CLI::App& of) {
    of.add_option("--authority", command->authority, "folder of the authority")->required();
  };
  CLI::App* init = add("init", "a new authority, in a new folder", Init);
  init->add_option("DIRECTORY", command->directory, "folder to write")->required();
  init->add_option("--name", command->name, "of the authority")->default_val("Medley");
  days(*init, 3650);
  CLI::App* issue = add("issue", "a certificate for a daemon or a person", IssueNew);
  issue->add_option("DIRECTORY", command->directory, "folder to write")->required();
  by(*issue);
  issue
      ->add_option("--role", command->role,
                   "viewer, operator, admin, agent, coordinator; none: a grant of the coordinator's says it")
      ->check(CLI::IsMember({"viewer", "operator", "admin", "agent", "coordinator"}));
  issue->add_option("--name", command->name, "who it is: an agent's is its node's name, or * for any")
      ->required();
  issue->add_option("--host", command->hosts,
                    "name or address by which others reach it, for what checks those; may be repeated");
  days(*issue, 365);
  CLI::App* renew =
      add("renew", "a new key and certificate in place of one, which daemons read within seconds", Renew);
  renew->add_option("DIRECTORY", command->directory, "folder of the certificate")->required();
  by(*renew);
  days(*renew, 365);
  CLI::App* show =
      add("show", "what a certificate says", [](const Connection& asked, const CertificatesCommand& of) {
        return ShowCertificate(asked, of.directory);
      });
  show->add_option("FILE", command->directory, "the certificate (PEM)")->required();
}

absl::StatusOr<std::optional<v1::TlsConfig>> PersonalTls(const std::string& field,
                                                         const std::string& directory) {
  std::string folder = directory;
  if (folder.empty()) {
    const char* config = std::getenv("XDG_CONFIG_HOME");
    const char* home = std::getenv("HOME");
    if (config != nullptr && *config != '\0') {
      folder = absl::StrCat(config, "/medley");
    } else if (home != nullptr && *home != '\0') {
      folder = absl::StrCat(home, "/.config/medley");
    }
    // After a change of the user HOME may be another's, whose folder may not be looked at.
    std::error_code unseen;
    if (folder.empty() || !fs::exists(folder + kCertificate, unseen)) return std::optional<v1::TlsConfig>();
  }
  v1::TlsConfig tls;
  tls.set_certificate(folder + kCertificate);
  tls.set_key(folder + kKey);
  tls.set_authority(folder + kAuthority);
  if (const absl::Status valid = CheckTls(tls).status(); !valid.ok())
    return absl::InvalidArgumentError(
        absl::StrCat(directory.empty() ? folder : field, ": ", valid.message()));
  return std::optional(std::move(tls));
}

}  // namespace medley

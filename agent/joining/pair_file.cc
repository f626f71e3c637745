#include "agent/joining/pair_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/certificate.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

// Durably, in the place of what is there.
absl::Status Rename(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return FileError(errno, "rename to", to.string());
  return SyncDirectory(to.has_parent_path() ? to.parent_path().string() : ".");
}

fs::path LinkTarget(const fs::path& file, const fs::path& name) {
  return name.parent_path() == file.parent_path() ? file.filename() : fs::absolute(file);
}

bool IsLinkTo(const fs::path& file, const fs::path& name) {
  std::error_code error;
  return fs::read_symlink(name, error) == LinkTarget(file, name);
}

// Makes `name` a link to `file`, at one moment.
absl::Status LinkTo(const fs::path& file, const fs::path& name) {
  std::error_code error;
  const std::string aside = absl::StrCat(name.string(), kPartialMarker, "link");
  fs::remove(aside, error);
  fs::create_symlink(LinkTarget(file, name), aside, error);
  if (error) return FileError(error.value(), "create link", aside);
  return Rename(aside, name);
}

}  // namespace

absl::Status ReplacePair(const v1::TlsConfig& tls, const std::string& key, const std::string& certificate) {
  const std::string pair = tls.key() + ".pair", next = pair + ".next";
  RETURN_IF_ERROR(WriteFileAtomically(next, certificate + key, kOwnerAlone));
  v1::TlsConfig shown = tls;
  shown.set_key(next);
  shown.set_certificate(next);
  RETURN_IF_ERROR(CheckTls(shown).status());
  if (!IsLinkTo(pair, tls.key()) || !IsLinkTo(pair, tls.certificate())) {
    // The old pair goes there first. A key that stands there already, as after another joining, has an older certificate beside it,
    // which then comes behind the one in force: the first one counts.
    ASSIGN_OR_RETURN(const std::string old_certificate, ReadPemFile("tls.certificate", tls.certificate()));
    ASSIGN_OR_RETURN(const std::string old_key, ReadPemFile("tls.key", tls.key()));
    RETURN_IF_ERROR(WriteFileAtomically(pair, old_certificate + old_key, kOwnerAlone));
    RETURN_IF_ERROR(LinkTo(pair, tls.key()));
    RETURN_IF_ERROR(LinkTo(pair, tls.certificate()));
  }
  return Rename(next, pair);
}

}  // namespace medley

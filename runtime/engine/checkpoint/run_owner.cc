#include "runtime/engine/checkpoint/run_owner.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_reader.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/checked_json.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "medley run";
constexpr int kVersion = 1;

absl::StatusOr<RunOwner> Parse(const std::string& text) {
  ASSIGN_OR_RETURN(const json object, ParseCheckedJson(text, kFormat, {kVersion, kVersion}));
  RunOwner owner;
  ASSIGN_OR_RETURN(owner.run, StringMember(object, "run"));
  ASSIGN_OR_RETURN(owner.job, StringMember(object, "job"));
  ASSIGN_OR_RETURN(owner.launch, UnsignedMember(object, "launch"));
  return owner;
}

}  // namespace

absl::StatusOr<std::optional<RunOwner>> ReadRunOwner(const std::string& root) {
  const std::string path = absl::StrCat(root, "/", kRunOwnerName);
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status())) return std::optional<RunOwner>();
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<RunOwner> owner = Parse(*text);
  if (owner.ok()) return std::optional<RunOwner>(*std::move(owner));
  return absl::DataLossError(absl::StrCat(path, ": ", owner.status().message()));
}

absl::Status WriteRunOwner(const std::string& root, const RunOwner& owner) {
  RETURN_IF_ERROR(CreateDirectories(root));
  return WriteFileAtomically(
      absl::StrCat(root, "/", kRunOwnerName),
      CheckedJsonText(kFormat, kVersion, {{"run", owner.run}, {"job", owner.job}, {"launch", owner.launch}}));
}

absl::Status CheckRunOwner(const std::string& root, const RunOwner& own) {
  if (own.run.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<RunOwner> owner, ReadRunOwner(root));
  if (!owner.has_value() || (owner->run == own.run && owner->launch <= own.launch)) return absl::OkStatus();
  if (owner->run == own.run) {
    return absl::AbortedError(
        absl::StrCat("superseded by launch ", owner->launch, " of the job; this is launch ", own.launch));
  }
  return absl::AbortedError(absl::StrCat("superseded: ", root, " now belongs to another run (job ",
                                         owner->job, ", launch ", owner->launch, ")"));
}

absl::Status KeepRunOwner(const std::string& root, const RunOwner& own) {
  if (own.run.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRunOwner(root, own));
  ASSIGN_OR_RETURN(const std::optional<RunOwner> owner, ReadRunOwner(root));
  if (owner == own) return absl::OkStatus();
  return WriteRunOwner(root, own);
}

}  // namespace medley

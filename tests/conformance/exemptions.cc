#include "tests/conformance/exemptions.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {
namespace {

constexpr ExemptionKind kUnsupported = ExemptionKind::kUnsupported;

// An entry:
//   Exempt<AttentionForwardArgs>("backend:variant", kUnsupported, "why",
//                                [](const AttentionForwardArgs& args) { return args.head_size > 256; }),
std::vector<Exemption> AllExemptions() {
  std::vector<Exemption> list = {Exempt<AddArgs>("skeleton", kUnsupported, "it adds four elements at a time",
                                                 [](const AddArgs& args) { return args.elements % 4 != 0; })};
#define MEDLEY_EXEMPT_SKELETON(name)   \
  if (OpKind::k##name != OpKind::kAdd) \
    list.push_back(Exempt<name##Args>("skeleton", kUnsupported, "its one kernel is Add"));
  MEDLEY_EACH_OP(MEDLEY_EXEMPT_SKELETON)
#undef MEDLEY_EXEMPT_SKELETON
  return list;
}

}  // namespace

const std::vector<Exemption>& Exemptions() {
  static const std::vector<Exemption>& list = *new std::vector<Exemption>(AllExemptions());
  return list;
}

const Exemption* FindExemption(const std::vector<Exemption>& list, const std::string& device,
                               ExemptionKind kind, OpKind op, const void* args) {
  for (const Exemption& entry : list) {
    const bool same_device = device == entry.device || absl::StartsWith(device, entry.device + ":") ||
                             absl::StartsWith(device, entry.device + "/");
    if (same_device && entry.kind == kind && entry.op == op && entry.applies(args)) return &entry;
  }
  return nullptr;
}

Judgement JudgeCall(const Exemption* unsupported, OpKind op, const absl::Status& status, RunBy run_by) {
  if (absl::IsUnimplemented(status)) {
    if (unsupported != nullptr) {
      return {Verdict::kDeclined,
              absl::StrCat(unsupported->device, " has no ", NameOf(op), ": ", unsupported->reason)};
    }
    return {Verdict::kWrong, absl::StrCat(NameOf(op), " is declined (", status.message(),
                                          ") and not on the list of tests/conformance/exemptions.cc")};
  }
  if (!status.ok()) return {Verdict::kWrong, absl::StrCat(NameOf(op), ": ", status.ToString())};
  if (run_by == RunBy::kFallback) {
    if (unsupported != nullptr) return {Verdict::kRan, ""};
    return {Verdict::kWrong, absl::StrCat(NameOf(op),
                                          " is left to the reference and not on the list of "
                                          "tests/conformance/exemptions.cc")};
  }
  if (unsupported != nullptr) {
    return {Verdict::kWrong,
            absl::StrCat(NameOf(op), " runs, but is listed as unsupported on ", unsupported->device, " (",
                         unsupported->reason, "); take it off the list of tests/conformance/exemptions.cc")};
  }
  return {Verdict::kRan, ""};
}

std::string JudgeResults(const Exemption* expected_failure, const std::vector<std::string>& mismatches) {
  if (expected_failure == nullptr) return absl::StrJoin(mismatches, "\n");
  if (!mismatches.empty()) return "";
  return absl::StrCat(NameOf(expected_failure->op), " is right, but is listed as an expected failure on ",
                      expected_failure->device, " (", expected_failure->reason,
                      "); take it off the list of tests/conformance/exemptions.cc");
}

}  // namespace medley

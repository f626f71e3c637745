#include "runtime/device/candidate_ops.h"

#include "absl/strings/str_cat.h"

namespace medley {

void CandidateOps::ParametersChanged() {
  for (const Candidate& candidate : candidates_) candidate.ops->ParametersChanged();
}

void CandidateOps::ForgetParameters() {
  for (const Candidate& candidate : candidates_) candidate.ops->ForgetParameters();
}

void CandidateOps::UseScratch(const OpScratch& scratch) {
  for (const Candidate& candidate : candidates_) candidate.ops->UseScratch(scratch);
}

OpHoldings CandidateOps::held() const {
  OpHoldings sum;
  for (const Candidate& candidate : candidates_) {
    const OpHoldings held = candidate.ops->held();
    sum.scratch += held.scratch;
    sum.copies += held.copies;
  }
  return sum;
}

absl::Status CandidateOps::AllDeclined(OpKind kind, const Choice& choice) const {
  std::string message = absl::StrCat(NameOf(kind), ": no candidate takes it");
  for (size_t i = 0; i < candidates_.size(); ++i) {
    absl::StrAppend(&message, i == 0 ? ": " : "; ", candidates_[i].name, ": ",
                    choice.objections[i].message());
  }
  return absl::UnimplementedError(message);
}

}  // namespace medley

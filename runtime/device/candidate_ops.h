#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/device/ops.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// Ops made of several sets of kernels on one queue, best first. An op goes to the first candidate that does
// not decline it, where declining is to return Unimplemented with the reason and to submit nothing.
//
//   auto ops = std::make_unique<CandidateOps>();
//   ops->Append("library", std::make_unique<LibraryOps>(*queue, *ops));
//   ops->Append("reference", std::make_unique<ReferenceOps>(*queue));
//
// A candidate may keep a reference to the whole and make an op of other ops by it (the HeadLoss of one on the
// best Matmul of all). Having submitted a part, it must not return Unimplemented any more, and its destructor
// must not use the whole, nor members of a class derived from it, which are gone by then. Threading: as for
// Ops; Append() only before the first op.
class CandidateOps : public UniformOps<CandidateOps> {
 public:
  struct Candidate {
    std::string name;  // for people, unique here: "cublas", "vector loops", "reference"
    std::unique_ptr<Ops> ops;
  };

  // Who took an op, and why those before declined it.
  struct Choice {
    const Candidate* chosen = nullptr;                // null: all declined
    absl::InlinedVector<absl::Status, 4> objections;  // of the candidates before it, in order
  };

  CandidateOps() = default;
  CandidateOps(const CandidateOps&) = delete;
  CandidateOps& operator=(const CandidateOps&) = delete;

  // To be asked after those added before.
  void Append(std::string name, std::unique_ptr<Ops> ops) {
    candidates_.push_back({std::move(name), std::move(ops)});
  }

  absl::Span<const Candidate> candidates() const { return candidates_; }

  // Every op: the status of the first candidate that does not decline.
  // Unimplemented: all declined; the message has the op and what each said.
  template <typename Args>
  absl::Status Submit(const Args& args) {
    Choice choice;
    return SubmitAndTell(args, choice);
  }

  // The same, and says in `choice` (given empty) how it went.
  template <typename Args>
  absl::Status SubmitAndTell(const Args& args, Choice& choice) {
    for (const Candidate& candidate : candidates_) {
      absl::Status status = RunOp(*candidate.ops, args);
      if (!absl::IsUnimplemented(status)) [[likely]] {
        choice.chosen = &candidate;
        return status;
      }
      choice.objections.push_back(std::move(status));
    }
    return AllDeclined(KindOf(args), choice);
  }

  void ParametersChanged() override;
  void ForgetParameters() override;
  void UseScratch(const OpScratch& scratch) override;
  OpHoldings held() const override;

 private:
  absl::Status AllDeclined(OpKind kind, const Choice& choice) const;

  std::vector<Candidate> candidates_;
};

}  // namespace medley

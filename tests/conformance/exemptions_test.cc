#include "tests/conformance/exemptions.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const std::vector<Exemption> kList = {
    Exempt<AttentionForwardArgs>("gpu", ExemptionKind::kUnsupported, "heads are too large",
                                 [](const AttentionForwardArgs& args) { return args.head_size > 128; }),
    Exempt<CastArgs>("gpu:old", ExemptionKind::kExpectedFailure, "rounds to zero")};

const Exemption* Unsupported(const std::string& device, const AttentionForwardArgs& args) {
  return FindExemption(kList, device, ExemptionKind::kUnsupported, KindOf(args), &args);
}

TEST_CASE("an entry is about its device with every variant, its op and the arguments it chooses") {
  CHECK(Unsupported("gpu", {.head_size = 129}) == &kList[0]);
  CHECK(Unsupported("gpu:new", {.head_size = 129}) == &kList[0]);
  CHECK(Unsupported("gpu/2", {.head_size = 129}) == &kList[0]);
  CHECK(Unsupported("gpu", {.head_size = 128}) == nullptr);
  CHECK(Unsupported("gpu2", {.head_size = 129}) == nullptr);
  const AttentionForwardArgs args{.head_size = 129};
  CHECK(FindExemption(kList, "gpu", ExemptionKind::kExpectedFailure, KindOf(args), &args) == nullptr);
  const CastArgs cast;
  CHECK(FindExemption(kList, "gpu:old", ExemptionKind::kExpectedFailure, KindOf(cast), &cast) == &kList[1]);
  CHECK(FindExemption(kList, "gpu:new", ExemptionKind::kExpectedFailure, KindOf(cast), &cast) == nullptr);
}

TEST_CASE("an op may decline only what is listed, and what is listed must decline") {
  const OpKind op = OpKind::kAttentionForward;
  const absl::Status declined = DecliningOps().AttentionForward({});
  CHECK(JudgeCall(nullptr, op, absl::OkStatus()).verdict == Verdict::kRan);
  CHECK(JudgeCall(nullptr, op, declined).verdict == Verdict::kWrong);
  CHECK(JudgeCall(&kList[0], op, declined).verdict == Verdict::kDeclined);
  CHECK(JudgeCall(&kList[0], op, absl::OkStatus()).verdict == Verdict::kWrong);
  CHECK(JudgeCall(&kList[0], op, absl::InternalError("lost")).verdict == Verdict::kWrong);
  CHECK(JudgeCall(&kList[0], op, absl::OkStatus(), RunBy::kFallback).verdict == Verdict::kRan);
  CHECK(JudgeCall(nullptr, op, absl::OkStatus(), RunBy::kFallback).verdict == Verdict::kWrong);
  CHECK(JudgeCall(&kList[0], op, absl::InternalError("lost"), RunBy::kFallback).verdict == Verdict::kWrong);
  CHECK(JudgeCall(&kList[0], op, declined).words == "gpu has no AttentionForward: heads are too large");
}

TEST_CASE("an expected failure that starts to pass fails") {
  CHECK(JudgeResults(nullptr, {}).empty());
  CHECK(JudgeResults(nullptr, {"y is wrong"}) == "y is wrong");
  CHECK(JudgeResults(&kList[1], {"y is wrong"}).empty());
  CHECK(JudgeResults(&kList[1], {}).find("Cast is right, but is listed") == 0);
}

}  // namespace
}  // namespace medley

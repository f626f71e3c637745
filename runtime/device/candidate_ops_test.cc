#include "runtime/device/candidate_ops.h"

#include <catch2/catch.hpp>
#include <set>

namespace medley {
namespace {

// Takes what it has a kernel for and notes it; declines the rest with a reason of its own.
class ScriptedOps final : public UniformOps<ScriptedOps> {
 public:
  ScriptedOps(std::set<OpKind> taken, std::string objection, Bytes workspace = {0})
      : taken_(std::move(taken)), objection_(std::move(objection)), workspace_(workspace) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    asked.push_back(KindOf(args));
    return taken_.count(KindOf(args)) ? answer : absl::UnimplementedError(objection_);
  }
  void ParametersChanged() override { ++parameter_changes; }
  OpHoldings held() const override { return {workspace_, {}}; }

  std::vector<OpKind> asked;
  absl::Status answer;
  int parameter_changes = 0;

 private:
  const std::set<OpKind> taken_;
  const std::string objection_;
  const Bytes workspace_;
};

struct Three {
  CandidateOps ops;
  ScriptedOps& first = Added("first", {OpKind::kMatmul}, "matmuls only");
  ScriptedOps& second = Added("second", {OpKind::kMatmul, OpKind::kAdd}, "no such shape");
  ScriptedOps& third = Added("third", {OpKind::kAdd, OpKind::kFill}, "not yet");

 private:
  ScriptedOps& Added(const char* name, std::set<OpKind> taken, const char* objection) {
    auto scripted = std::make_unique<ScriptedOps>(std::move(taken), objection, KiB(1));
    ScriptedOps& added = *scripted;
    ops.Append(name, std::move(scripted));
    return added;
  }
};

TEST_CASE("an op goes to the first candidate that does not decline it, and to no other") {
  Three three;
  CHECK(three.ops.Matmul({}).ok());
  CHECK(three.ops.Add({}).ok());
  CHECK(three.ops.Fill({}).ok());
  CHECK(three.first.asked == std::vector{OpKind::kMatmul, OpKind::kAdd, OpKind::kFill});
  CHECK(three.second.asked == std::vector{OpKind::kAdd, OpKind::kFill});
  CHECK(three.third.asked == std::vector{OpKind::kFill});
}

TEST_CASE("every op of the list reaches the candidates as itself") {
  CandidateOps ops;
  auto scripted = std::make_unique<ScriptedOps>(std::set<OpKind>{}, "none");
  ScriptedOps& only = *scripted;
  ops.Append("only", std::move(scripted));
  std::vector<OpKind> all;
#define MEDLEY_CALL_OP(name)                            \
  CHECK(absl::IsUnimplemented(ops.name(name##Args{}))); \
  all.push_back(OpKind::k##name);
  MEDLEY_EACH_OP(MEDLEY_CALL_OP)
#undef MEDLEY_CALL_OP
  CHECK(all.size() == kOpKinds);
  CHECK(only.asked == all);
}

TEST_CASE("if all decline, the error has the op and every objection in order") {
  Three three;
  const absl::Status status = three.ops.Scale({});
  CHECK(absl::IsUnimplemented(status));
  CHECK(status.message() ==
        "Scale: no candidate takes it: first: matmuls only; second: no such shape; third: not yet");
  CandidateOps none;
  CHECK(none.Scale({}).message() == "Scale: no candidate takes it");
}

TEST_CASE("an error that is no objection is final: the next candidate is not asked") {
  Three three;
  three.second.answer = absl::OutOfRangeError("Add: past the end");
  CHECK(three.ops.Add({}) == three.second.answer);
  CHECK(three.third.asked.empty());
}

TEST_CASE("the choice tells who took an op and why those before did not") {
  Three three;
  CandidateOps::Choice choice;
  REQUIRE(three.ops.SubmitAndTell(FillArgs{}, choice).ok());
  REQUIRE(choice.chosen != nullptr);
  CHECK(choice.chosen->name == "third");
  REQUIRE(choice.objections.size() == 2);
  CHECK(choice.objections[0].message() == "matmuls only");
  CHECK(choice.objections[1].message() == "no such shape");
  CandidateOps::Choice none;
  CHECK(absl::IsUnimplemented(three.ops.SubmitAndTell(ScaleArgs{}, none)));
  CHECK(none.chosen == nullptr);
  CHECK(none.objections.size() == 3);
}

TEST_CASE("all candidates hear of changed parameters, and what they hold adds up") {
  Three three;
  three.ops.ParametersChanged();
  CHECK(three.first.parameter_changes == 1);
  CHECK(three.second.parameter_changes == 1);
  CHECK(three.third.parameter_changes == 1);
  CHECK(three.ops.held().scratch == KiB(3));
}

// Fills by adding, whoever adds.
class FillByAdding final : public DecliningOps {
 public:
  explicit FillByAdding(Ops& whole) : whole_(whole) {}
  absl::Status Fill(const FillArgs&) override { return whole_.Add({}); }

 private:
  Ops& whole_;
};

TEST_CASE("a candidate can make its op of the best others") {
  CandidateOps ops;
  ops.Append("composed", std::make_unique<FillByAdding>(ops));
  auto scripted = std::make_unique<ScriptedOps>(std::set<OpKind>{OpKind::kAdd}, "adds only");
  ScriptedOps& adder = *scripted;
  ops.Append("adder", std::move(scripted));
  CHECK(ops.Fill({}).ok());
  CHECK(adder.asked == std::vector{OpKind::kAdd});
}

}  // namespace
}  // namespace medley

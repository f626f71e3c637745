#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/align/call_file.h"
#include "runtime/engine/align/captured_call.h"
#include "runtime/engine/align/comparison.h"
#include "runtime/engine/align/tolerance.h"

// Whether two devices compute the same: pure, from what each made of the same calls and of the same training.
namespace medley {

// The three that run every captured call. The oracle is the reference device in f32: it sums in f64 and
// rounds no operand to bf16, whatever the precision of the two others.
enum class Party : uint8_t { kA, kB, kOracle };
constexpr int kParties = 3;

// Which results are held against each other, and to what: a device against the oracle by the table of
// tolerance.h, in the precision that it computes in; the two devices against each other by the sum of their
// tolerances.
enum class Pair : uint8_t { kAToOracle, kBToOracle, kBToA };
constexpr int kPairs = 3;

struct OutputComparison {
  std::string name;
  std::array<double, kPairs> tolerances{};
  std::array<Difference, kPairs> differences{};  // of kBToA, A is what is wanted

  bool parted(Pair pair) const { return !differences[static_cast<int>(pair)].within(); }
};

// One captured call on all three.
struct CallComparison {
  CallPlace place;
  OpKind kind{};
  std::string shape;
  std::array<absl::Status, kParties> statuses;  // of a party that could not run it, or left no result
  std::vector<OutputComparison> outputs;        // none unless all three ran it

  bool failed(Party party) const { return !statuses[static_cast<int>(party)].ok(); }
  bool parted(Pair pair) const;
  // All ran it, and no pair parted.
  bool aligned() const;
  // The worst of its differences by ratio; null without outputs.
  const OutputComparison* worst(Pair pair) const;
};

// `results` are of this call, by Party. `precision_a` is what A computes in.
CallComparison CompareCall(const CapturedCall& call, const std::array<CallResult, kParties>& results,
                           Precision precision_a, Precision precision_b);

// Mean losses of the same steps from the same start on both devices.
struct LossComparison {
  std::vector<double> losses_a, losses_b;  // by step
  double tolerance = 0;                    // relative; LossToleranceOf
  double worst_relative = 0;
  int first_parted_step = 0;  // from 1; 0: none

  bool aligned() const { return first_parted_step == 0; }
};
// InvalidArgument: not as many steps on both.
absl::StatusOr<LossComparison> CompareLosses(std::vector<double> losses_a, std::vector<double> losses_b,
                                             Precision precision_a, Precision precision_b);

// The calls of one op with one shape, together.
struct OpSummary {
  OpKind kind{};
  std::string shape;
  int64_t calls = 0, parted = 0;
  std::string worst_output;                // of the worst ratio to the oracle or between the two
  std::array<Difference, kPairs> worst{};  // by ratio, each pair by itself
  double lowest_cosine = 1;                // between the two
  int64_t not_finite = 0;                  // elements that overflowed or are NaN, on A, B or the oracle
};

// All calls. Add them in program order.
class Alignment {
 public:
  static constexpr int kDetailed = 20;

  void Add(CallComparison comparison);

  int64_t calls() const { return calls_; }
  int64_t parted() const { return parted_; }
  bool aligned() const { return parted_ == 0; }
  // By op in the order of op_list.h, then by shape in the order of their first call.
  std::vector<OpSummary> Summaries() const;
  // The first kDetailed calls that are not aligned, in program order; the first of them is where the two
  // part.
  const std::vector<CallComparison>& details() const { return details_; }

 private:
  int64_t calls_ = 0, parted_ = 0;
  std::vector<OpSummary> summaries_;
  std::map<std::pair<OpKind, std::string>, size_t> by_shape_;
  std::vector<CallComparison> details_;
};

}  // namespace medley

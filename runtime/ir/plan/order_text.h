#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/ir/plan/unit_op.h"

// The passes of a unit's order as text, of which a person can read what a unit does and write what it shall
// do: "F0-3 I0 W0 F4 B1". A letter says which pass (F: forward, B: backward whole, I: the input's gradient,
// W: the weights'), a number or a range of them which micro-batch of the route. Where a unit is passed more
// than once, the visit comes before it, the first being left out: "F0 F1:0" are the forwards of the first
// micro-batch in visits 0 and 1.
namespace medley {

// The most passes of an order; more are refused.
constexpr int kMaxOrderPasses = 1 << 20;

// One pass, as it stands in an order: "F3", "I1:5". Receives have no letter: "?".
std::string FormatPass(const UnitOp& op);

// Consecutive passes that differ in their micro-batches alone, which ascend by one, are a range. `order` has
// passes alone.
std::string FormatOrder(const UnitOrder& order);

// InvalidArgument, naming the word and what is allowed: a word that is no pass; a range that ends before it
// begins; more than kMaxOrderPasses passes. Whether the order suits a plan is check_plan.h's to say.
absl::StatusOr<UnitOrder> ParseOrder(absl::string_view text);

}  // namespace medley

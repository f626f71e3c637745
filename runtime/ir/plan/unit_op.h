#pragma once
#include <cstdint>
#include <vector>

namespace medley {

// What a unit does next: a pass, or to take in what the stage beside it sends for one.
struct UnitOp {
  enum class Kind : uint8_t {
    kReceiveActivation,
    kForward,
    kReceiveGradient,
    kBackward,        // the gradients of the input and of the weights
    kInputGradient,   // or the one, which is what the stage before waits for,
    kWeightGradient,  // and at any time later the other
  };
  Kind kind;
  int visit = 0;    // index into VisitsOf(plan, unit)
  int micro_batch;  // of the route, from 0
  friend bool operator==(const UnitOp&, const UnitOp&) = default;
};

inline bool IsPass(UnitOp::Kind kind) {
  return kind != UnitOp::Kind::kReceiveActivation && kind != UnitOp::Kind::kReceiveGradient;
}

// What one unit does in a step, first to last.
using UnitOrder = std::vector<UnitOp>;

}  // namespace medley

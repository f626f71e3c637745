#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/bytes.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// The arguments of one op, whichever it is.
#define MEDLEY_ARGS_OF(name) , name##Args
using AnyArgs = std::variant<std::monostate MEDLEY_EACH_OP(MEDLEY_ARGS_OF)>;
#undef MEDLEY_ARGS_OF

// VisitFields (op_table.h) of them; nothing of none.
template <typename Visitor>
void VisitAny(AnyArgs& args, Visitor& visitor) {
  std::visit(
      [&](auto& some) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(some)>, std::monostate>)
          VisitFields(some, visitor);
      },
      args);
}

// Where in a training run an op was called.
struct CallPlace {
  int64_t index = 0;  // of all op calls, captured or not, in program order from 0
  int64_t step = 0;   // from 1
  // The parameter that the call works on, or the last one before it: "h.3.mlp.c_fc.weight".
  std::string position;
};

// One operand of a captured call.
struct CapturedTensor {
  std::string name;  // as in op_slices.h
  Dtype dtype = Dtype::kF32;
  Access access = Access::kRead;
  int64_t elements = 0;
  int same_as = -1;               // an earlier tensor of the call that lies in the same place; -1: none
  std::vector<std::byte> before;  // what was there; empty if same_as >= 0, or if the op only writes it
};

// One call of one op with what it read: enough to run it again, on any device.
struct CapturedCall {
  CallPlace place;
  // Their slices hold no memory: a slice is non-empty if the operand was given, and has its elements.
  AnyArgs args;
  std::vector<AdamWRange> ranges;       // of AdamW, whose args.ranges refers to these
  std::vector<CapturedTensor> tensors;  // parallel to Operands(call)

  OpKind kind() const { return static_cast<OpKind>(args.index() - 1); }
};

// SlicesOf the call's arguments, with pointers into `call`. Refers args.ranges to call.ranges first, which a
// copy of the call needs.
OpSlices Operands(CapturedCall& call);

// A slice of `elements` elements in no memory, for CapturedCall::args.
Slice PlacelessSlice(int64_t elements, Dtype dtype = Dtype::kF32);

// "m=64 n=192 k=64 transpose_b +bias add": sizes, beginnings other than 0, choices other than the first,
// optional operands that are there; not the precision, which each device has its own of. Calls of an op with equal shapes do the same
// work.
std::string ShapeOf(const CapturedCall& call);

// Whether the op knows more than one precision to compute in. Setting it on one that does not changes nothing.
bool HasPrecision(const CapturedCall& call);
void SetPrecision(CapturedCall& call, Precision precision);

// The size of the contents that were kept.
Bytes CapturedBytes(const CapturedCall& call);

// Whether the call may be handed to any device: no size is negative, their product is at most 2^48, every
// tensor is what the shape asks for and has as many bytes as its elements, ids lie inside the table that they
// index if the op looks at no others, AdamW's ranges are ascending and inside its tensors, numbers are finite.
// InvalidArgument: not so; the message has the field, its value and what is allowed.
absl::Status CheckCall(const CapturedCall& call);

}  // namespace medley

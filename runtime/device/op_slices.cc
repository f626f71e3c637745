#include "runtime/device/op_slices.h"

namespace medley {
namespace {

struct SliceCollector : IgnoringVisitor {
  OpSlices slices;

  template <typename Elements>
  void Operand(const char* name, Slice& slice, const Elements& elements, const OperandUse& use) {
    if (use.optional && slice.empty()) return;
    slices.push_back({name, &slice, elements(), use.access, use.dtype, use.arithmetic, use.typed});
  }
};

}  // namespace

#define MEDLEY_DEFINE_SLICES(name)      \
  OpSlices SlicesOf(name##Args& args) { \
    SliceCollector collector;           \
    VisitFields(args, collector);       \
    return std::move(collector.slices); \
  }
MEDLEY_EACH_OP(MEDLEY_DEFINE_SLICES)
#undef MEDLEY_DEFINE_SLICES

}  // namespace medley

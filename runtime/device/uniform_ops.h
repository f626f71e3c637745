#pragma once
#include "absl/status/status.h"
#include "runtime/device/ops.h"

// For what treats every op alike: choosing among kernels, recording, emulating, falling back.
namespace medley {

enum class OpKind : uint8_t {
#define MEDLEY_OP_KIND(name) k##name,
  MEDLEY_EACH_OP(MEDLEY_OP_KIND)
#undef MEDLEY_OP_KIND
};

#define MEDLEY_COUNT_OP(name) +1
inline constexpr int kOpKinds = 0 MEDLEY_EACH_OP(MEDLEY_COUNT_OP);
#undef MEDLEY_COUNT_OP

// "Matmul", as the method is called.
constexpr const char* NameOf(OpKind kind) {
  constexpr const char* kNames[] = {
#define MEDLEY_OP_NAME(name) #name,
      MEDLEY_EACH_OP(MEDLEY_OP_NAME)
#undef MEDLEY_OP_NAME
  };
  return kNames[static_cast<int>(kind)];
}

// Which op the arguments are of.
#define MEDLEY_OP_OF(name) \
  constexpr OpKind KindOf(const name##Args&) { return OpKind::k##name; }
MEDLEY_EACH_OP(MEDLEY_OP_OF)
#undef MEDLEY_OP_OF

// Calls the op that the arguments are of.
#define MEDLEY_RUN_OP(name) \
  inline absl::Status RunOp(Ops& ops, const name##Args& args) { return ops.name(args); }
MEDLEY_EACH_OP(MEDLEY_RUN_OP)
#undef MEDLEY_RUN_OP

// Ops whose every op is Derived::Submit(args), a template over the arguments.
template <typename Derived>
class UniformOps : public Ops {
 public:
#define MEDLEY_SUBMIT_OP(name) \
  absl::Status name(const name##Args& args) override { return static_cast<Derived*>(this)->Submit(args); }
  MEDLEY_EACH_OP(MEDLEY_SUBMIT_OP)
#undef MEDLEY_SUBMIT_OP
};

// Ops that decline everything. A backend that has some kernels derives from it and overrides those.
class DecliningOps : public UniformOps<DecliningOps> {
 public:
  template <typename Args>
  absl::Status Submit(const Args& args) {
    return absl::UnimplementedError("no kernel");
  }
  void ParametersChanged() override {}
};

}  // namespace medley

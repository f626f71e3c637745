#include "kernels/skeleton/skeleton_ops.h"

#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status SkeletonOps::Add(const AddArgs& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  if (args.elements % 4 != 0) {
    return absl::UnimplementedError(absl::StrCat("adds 4 elements at a time, given ", args.elements));
  }
  return queue_.Submit([a = SkeletonQueue::Hold<const float>(args.a),
                        b = SkeletonQueue::Hold<const float>(args.b), c = SkeletonQueue::Hold<float>(args.c),
                        elements = args.elements] {
    for (int64_t i = 0; i < elements; ++i) c.get()[i] = a.get()[i] + b.get()[i];
    return absl::OkStatus();
  });
}

}  // namespace medley

#include "kernels/cuda/cudnn_attention_ops.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kBf16Bytes = 2;
// The indices of copies and scratch in RoundedOperands.
constexpr size_t kScratchOfQkv = 0, kScratchOfOut = 1, kScratchOfDOut = 2, kScratchOfDQkv = 3;

template <typename Args>
AttentionShape ShapeOf(const Args& args) {
  return {args.batch, args.sequence, args.heads, args.key_value_heads, args.head_size};
}

int64_t QkvElements(const AttentionShape& s) {
  return s.batch * s.sequence * (s.heads + 2 * s.key_value_heads) * s.head_size;
}
int64_t OutElements(const AttentionShape& s) { return s.batch * s.sequence * s.heads * s.head_size; }
int64_t Rows(const AttentionShape& s) { return s.batch * s.sequence * s.heads; }

// Why cuDNN need not be asked, or OK.
absl::Status Objection(Precision precision, const AttentionShape& shape) {
  constexpr int64_t kLargestHead = 256;
  if (precision != Precision::kBf16) return absl::UnimplementedError("cuDNN attends in bf16 only");
  if (QkvElements(shape) == 0 || shape.heads == 0) return absl::UnimplementedError("a tensor is empty");
  if (shape.head_size % 8 != 0 || shape.head_size > kLargestHead) {
    return absl::UnimplementedError(absl::StrCat("head_size is ", shape.head_size,
                                                 ", must be a multiple of 8 and at most ", kLargestHead));
  }
  return absl::OkStatus();
}

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// The scalars of a plan, which it reads from the host when it is run.
struct Scalars {
  explicit Scalars(int64_t head_size)
      : scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)))) {}
  float scale;
  // Finite: minus infinity less itself would be no number. Its exponential is 0 beside any score.
  float masked = -1e30f;
  float one = 1.0f;
};

// Binds query, key and value of a buffer of qkv, or their gradients.
void BindQkv(int64_t query_id, CUdeviceptr qkv, const AttentionShape& shape,
             std::vector<CudnnPlan::Binding>& bindings) {
  const auto at_head = [&](int64_t head) {
    return Pointer(qkv + static_cast<CUdeviceptr>(head * shape.head_size * kBf16Bytes));
  };
  bindings.push_back({query_id, at_head(0)});
  bindings.push_back({query_id + 1, at_head(shape.heads)});
  bindings.push_back({query_id + 2, at_head(shape.heads + shape.key_value_heads)});
}

}  // namespace

CudnnAttentionOps::CudnnAttentionOps(CudaQueue& queue, Ops& whole)
    : queue_(queue), library_(CudnnLibrary::Get()), bf16_(queue, whole) {}

CudnnAttentionOps::~CudnnAttentionOps() {
  forward_.clear();
  backward_.clear();
  if (handle_ != nullptr && queue_.device().MakeCurrent().ok()) (*library_)->cudnnDestroy(handle_);
}

OpHoldings CudnnAttentionOps::held() const {
  return {bf16_.scratch() + (workspace_ == nullptr ? Bytes{0} : workspace_->size()), bf16_.copies()};
}

absl::Status CudnnAttentionOps::EnsureReady() {
  if (!library_.ok()) return absl::UnimplementedError(std::string(library_.status().message()));
  if (handle_ != nullptr) return absl::OkStatus();
  const CudnnLibrary& library = **library_;
  absl::Status status = library.ToStatus(library.cudnnCreate(&handle_), "starting cuDNN");
  if (status.ok()) {
    status = library.ToStatus(
        library.cudnnSetStream(handle_, reinterpret_cast<cudaStream_t>(queue_.compute_stream())),
        "cudnnSetStream");
  }
  return status.ok() ? status : absl::UnimplementedError(std::string(status.message()));
}

absl::StatusOr<const CudnnPlan*> CudnnAttentionOps::Find(Plans& plans, Compiler compile,
                                                         const AttentionShape& shape) {
  auto found = plans.find(shape);
  if (found == plans.end()) {
    found = plans.emplace(shape, compile(**library_, {.handle = handle_}, shape)).first;
  }
  // Whatever keeps a plan from being made, another kernel can do this.
  if (!found->second.ok()) return absl::UnimplementedError(std::string(found->second.status().message()));
  return &*found->second;
}

absl::StatusOr<void*> CudnnAttentionOps::PlanWorkspace(Bytes size) {
  if (size.value == 0) return nullptr;
  if (workspace_ == nullptr || workspace_->size() < size) {
    workspace_ = nullptr;
    ASSIGN_OR_RETURN(workspace_, queue_.AllocateWorkspace(size));
  }
  ASSIGN_OR_RETURN(const CUdeviceptr address, queue_.Address({workspace_.get(), 0, 0}));
  return Pointer(address);
}

absl::Status CudnnAttentionOps::Run(const CudnnPlan& plan, absl::Span<const CudnnPlan::Binding> bindings) {
  ASSIGN_OR_RETURN(void* workspace, PlanWorkspace(plan.workspace()));
  const absl::Status status = plan.Execute(handle_, bindings, workspace);
  // Something may have been submitted: no candidate after this one may try.
  return status.ok() ? status : queue_.Poison(absl::InternalError(std::string(status.message())));
}

absl::Status CudnnAttentionOps::AttentionForward(const AttentionForwardArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  const AttentionShape shape = ShapeOf(args);
  RETURN_IF_ERROR(Objection(args.precision, shape));
  RETURN_IF_ERROR(queue_.Enter());
  RETURN_IF_ERROR(EnsureReady());
  ASSIGN_OR_RETURN(const CudnnPlan* plan, Find(forward_, CompileAttentionForward, shape));
  ASSIGN_OR_RETURN(const Slice qkv, bf16_.Copy(args.qkv, Dtype::kBf16, QkvElements(shape), kScratchOfQkv));
  ASSIGN_OR_RETURN(const Slice out,
                   bf16_.Destination(args.out, Dtype::kBf16, OutElements(shape), kScratchOfOut));
  ASSIGN_OR_RETURN(const CUdeviceptr qkv_address, queue_.Address(qkv));
  ASSIGN_OR_RETURN(const CUdeviceptr out_address, queue_.Address(out));
  ASSIGN_OR_RETURN(const CUdeviceptr log_sum_exp, queue_.Address(args.log_sum_exp));
  Scalars scalars(shape.head_size);
  std::vector<CudnnPlan::Binding> bindings = {{kOut, Pointer(out_address)},
                                              {kLogSumExp, Pointer(log_sum_exp)},
                                              {kScale, &scalars.scale},
                                              {kMasked, &scalars.masked}};
  BindQkv(kQuery, qkv_address, shape, bindings);
  RETURN_IF_ERROR(Run(*plan, bindings));
  return bf16_.Store(out, args.out, OutElements(shape));
}

absl::Status CudnnAttentionOps::AttentionBackward(const AttentionBackwardArgs& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  const AttentionShape shape = ShapeOf(args);
  RETURN_IF_ERROR(Objection(args.precision, shape));
  RETURN_IF_ERROR(queue_.Enter());
  RETURN_IF_ERROR(EnsureReady());
  ASSIGN_OR_RETURN(const CudnnPlan* plan, Find(backward_, CompileAttentionBackward, shape));
  const int64_t out_elements = OutElements(shape);
  const bool has_shared_keys = shape.key_value_heads < shape.heads;
  ASSIGN_OR_RETURN(const Slice qkv, bf16_.Copy(args.qkv, Dtype::kBf16, QkvElements(shape), kScratchOfQkv));
  ASSIGN_OR_RETURN(const Slice out, bf16_.Copy(args.out, Dtype::kBf16, out_elements, kScratchOfOut));
  ASSIGN_OR_RETURN(const Slice d_out, bf16_.Copy(args.dout, Dtype::kBf16, out_elements, kScratchOfDOut));
  // The gradients, unless they are written where they belong; then, where query heads share keys, the gradients of keys and values of each; then the row
  // sums, f32.
  const int64_t heads_elements = has_shared_keys ? 2 * out_elements : 0;
  // Each part begins at a multiple of 64 elements, as the plans demand of addresses.
  const auto padded = [](int64_t elements) { return (elements + 63) / 64 * 64; };
  const bool in_place = RoundedOperands::IsTaken(args.dqkv, Dtype::kBf16);
  const int64_t heads_first = in_place ? 0 : padded(QkvElements(shape)),
                sums_first = heads_first + 2 * padded(heads_elements / 2);
  ASSIGN_OR_RETURN(const Slice scratch,
                   bf16_.Scratch(Dtype::kBf16, sums_first + 2 * Rows(shape), kScratchOfDQkv));
  const Slice dqkv = in_place ? args.dqkv : scratch.Sub(0, QkvElements(shape));
  const auto address = [&](const Slice& slice) { return queue_.Address(slice); };
  ASSIGN_OR_RETURN(const CUdeviceptr qkv_address, address(qkv));
  ASSIGN_OR_RETURN(const CUdeviceptr out_address, address(out));
  ASSIGN_OR_RETURN(const CUdeviceptr d_out_address, address(d_out));
  ASSIGN_OR_RETURN(const CUdeviceptr scratch_address, address(scratch));
  ASSIGN_OR_RETURN(const CUdeviceptr dqkv_address, address(dqkv));
  ASSIGN_OR_RETURN(const CUdeviceptr log_sum_exp, address(args.log_sum_exp));
  Scalars scalars(shape.head_size);
  const auto in_scratch = [&](int64_t first) {
    return Pointer(scratch_address + static_cast<CUdeviceptr>(first * kBf16Bytes));
  };
  std::vector<CudnnPlan::Binding> bindings = {{kOut, Pointer(out_address)},
                                              {kDOut, Pointer(d_out_address)},
                                              {kLogSumExp, Pointer(log_sum_exp)},
                                              {kSoftmaxSum, in_scratch(sums_first)},
                                              {kScale, &scalars.scale},
                                              {kMasked, &scalars.masked},
                                              {kOne, &scalars.one}};
  BindQkv(kQuery, qkv_address, shape, bindings);
  BindQkv(kDQuery, dqkv_address, shape, bindings);
  if (has_shared_keys) {
    bindings.push_back({kDKeyHeads, in_scratch(heads_first)});
    bindings.push_back({kDValueHeads, in_scratch(heads_first + padded(heads_elements / 2))});
  }
  RETURN_IF_ERROR(Run(*plan, bindings));
  return bf16_.Store(dqkv, args.dqkv, QkvElements(shape));
}

}  // namespace medley

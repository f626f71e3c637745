#include "kernels/cuda/cublaslt_ops.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "kernels/portable/launch_shapes.h"
#include "kernels/portable/matmul_epilogue.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// What NVIDIA recommends for Hopper.
constexpr Bytes kWorkspace = MiB(32);
constexpr size_t kScratchOfA = 0, kScratchOfB = 1;
// Tensor cores are fed by loads of 16 B: rows of copies begin at multiples of that.
constexpr int64_t kRowElements = 8;

cublasLtEpilogue_t EpilogueOf(const MatmulKey& key) {
  switch (key.epilogue) {
    case Epilogue::kNone:
      return key.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kGelu:
      return key.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

cublasComputeType_t ComputeType(MatmulArithmetic arithmetic) {
  return arithmetic == MatmulArithmetic::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cudaDataType_t CudaType(Dtype dtype) {
  return dtype == Dtype::kBf16 ? CUDA_R_16BF : dtype == Dtype::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

bool IsNarrow(const Slice& slice) { return !slice.empty() && slice.dtype != Dtype::kF32; }

// Why a product of tensors that are not all f32 is declined, or OK.
absl::Status TypeObjection(const MatmulArgs& args) {
  for (const Slice& slice : {args.a, args.b, args.c}) {
    if (IsNarrow(slice) && slice.dtype != TypeOf(args.precision))
      return absl::UnimplementedError("takes narrow tensors of the type that it multiplies alone");
  }
  if (args.epilogue != Epilogue::kNone && args.c.dtype != args.pre_activation.dtype)
    return absl::UnimplementedError("c and pre_activation are of unlike types");
  return absl::OkStatus();
}

}  // namespace

// A product's descriptors and the algorithm chosen for it.
class CublasLtOps::Plan {
 public:
  explicit Plan(const CublasLtLibrary& library) : library(library) {}
  ~Plan() {
    if (product != nullptr) library.cublasLtMatmulDescDestroy(product);
    for (const cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) library.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <typename T>
  absl::Status Set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return library.ToStatus(library.cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
                            "cublasLtMatmulDescSetAttribute");
  }

  absl::Status SetEpilogueAddresses(const Operands& operands) const {
    if (operands.bias != 0) RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
    if (operands.pre_activation == 0) return absl::OkStatus();
    return Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.pre_activation);
  }

  const CublasLtLibrary& library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm;
};

CublasLtOps::CublasLtOps(CudaQueue& queue, KernelLauncher& launcher, Ops& whole, F32Matmul f32)
    : queue_(queue),
      launcher_(launcher),
      f32_(f32),
      library_(CublasLtLibrary::Get()),
      rounded_(queue, whole) {}

CublasLtOps::~CublasLtOps() {
  plans_.clear();
  if (handle_ != nullptr && queue_.device().MakeCurrent().ok()) (*library_)->cublasLtDestroy(handle_);
}

OpHoldings CublasLtOps::held() const {
  return {rounded_.scratch() + (workspace_ == nullptr ? Bytes{0} : workspace_->size()), rounded_.copies()};
}

absl::Status CublasLtOps::EnsureReady() {
  if (!library_.ok()) return absl::UnimplementedError(std::string(library_.status().message()));
  if (workspace_ != nullptr) return absl::OkStatus();
  if (handle_ == nullptr) {
    const absl::Status created =
        (*library_)->ToStatus((*library_)->cublasLtCreate(&handle_), "starting cuBLASLt");
    if (!created.ok()) return absl::UnimplementedError(std::string(created.message()));
  }
  ASSIGN_OR_RETURN(workspace_, queue_.AllocateWorkspace(kWorkspace));
  return absl::OkStatus();
}

MatmulArithmetic CublasLtOps::ArithmeticOf(const MatmulArgs& args) const {
  if (args.precision == Precision::kBf16) return MatmulArithmetic::kBf16;
  if (args.precision == Precision::kF16) return MatmulArithmetic::kF16;
  return f32_ == F32Matmul::kTf32 ? MatmulArithmetic::kTf32 : MatmulArithmetic::kF32;
}

absl::StatusOr<Slice> CublasLtOps::RoundRows(const Slice& x, Dtype dtype, int64_t elements, int64_t columns,
                                             size_t scratch, int64_t& stride) {
  if (RoundedOperands::IsTaken(x, dtype)) return x;
  if (stride != columns) return absl::UnimplementedError("rows with gaps that would have to be rounded");
  if (columns % kRowElements == 0 || x.dtype != Dtype::kF32)
    return rounded_.Copy(x, dtype, elements, scratch);
  const int64_t rows = elements / columns;
  stride = CeilDivide(columns, kRowElements) * kRowElements;
  ASSIGN_OR_RETURN(const Slice copy, rounded_.Scratch(dtype, rows * stride, scratch));
  RETURN_IF_ERROR(launcher_.Launch(dtype == Dtype::kBf16 ? "f32_to_bf16_rows" : "f32_to_f16_rows",
                                   OverRows(rows, columns), {x, copy, columns, stride}));
  return copy;
}

absl::StatusOr<CublasLtOps::Operands> CublasLtOps::Prepare(const MatmulArgs& args, int64_t a_stride,
                                                           int64_t c_stride) {
  Slice a = args.a, b = args.b, bias = args.bias;
  const Dtype dtype = TypeOf(args.precision);
  const int64_t a_columns = args.transpose_a == Transpose::kYes ? args.m : args.k,
                b_columns = args.transpose_b == Transpose::kYes ? args.k : args.n;
  Operands operands{.a_stride = a_stride, .b_stride = b_columns, .c_stride = c_stride};
  if (dtype != Dtype::kF32) {
    ASSIGN_OR_RETURN(a, RoundRows(args.a, dtype, args.m * args.k, a_columns, kScratchOfA, operands.a_stride));
    if (args.b_constness == Constness::kParameter) {
      ASSIGN_OR_RETURN(b, rounded_.CopyOfParameter(args.b, dtype, args.k * args.n));
    } else {
      ASSIGN_OR_RETURN(b,
                       RoundRows(args.b, dtype, args.k * args.n, b_columns, kScratchOfB, operands.b_stride));
    }
  }
  // The library adds a bias of the result's type alone.
  if (IsNarrow(args.c) && !bias.empty()) {
    ASSIGN_OR_RETURN(bias, rounded_.CopyOfParameter(bias, args.c.dtype, args.n));
  }
  ASSIGN_OR_RETURN(operands.a, queue_.Address(a));
  ASSIGN_OR_RETURN(operands.b, queue_.Address(b));
  ASSIGN_OR_RETURN(operands.c, queue_.Address(args.c));
  ASSIGN_OR_RETURN(operands.bias, queue_.Address(bias));
  ASSIGN_OR_RETURN(operands.pre_activation, queue_.Address(args.pre_activation));
  return operands;
}

absl::StatusOr<const CublasLtOps::Plan*> CublasLtOps::Find(const MatmulArgs& args, const Operands& operands) {
  const MatmulKey key{.m = args.m,
                      .n = args.n,
                      .k = args.k,
                      .transpose_a = args.transpose_a,
                      .transpose_b = args.transpose_b,
                      .arithmetic = ArithmeticOf(args),
                      .result = args.c.dtype,
                      .store = args.store,
                      .has_bias = !args.bias.empty(),
                      .epilogue = args.epilogue,
                      .a_stride = operands.a_stride,
                      .b_stride = operands.b_stride,
                      .c_stride = operands.c_stride,
                      .a_alignment_bytes = AlignmentOf(operands.a),
                      .b_alignment_bytes = AlignmentOf(operands.b),
                      .c_alignment_bytes = AlignmentOf(operands.c | operands.pre_activation),
                      .bias_alignment_bytes = AlignmentOf(operands.bias)};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second.get();
  ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, Make(args, key, operands));
  return plans_.emplace(key, std::move(plan)).first->second.get();
}

absl::StatusOr<std::unique_ptr<CublasLtOps::Plan>> CublasLtOps::Make(const MatmulArgs& args,
                                                                     const MatmulKey& key,
                                                                     const Operands& operands) {
  const CublasLtLibrary& lt = **library_;
  auto plan = std::make_unique<Plan>(lt);
  RETURN_IF_ERROR(
      lt.ToStatus(lt.cublasLtMatmulDescCreate(&plan->product, ComputeType(key.arithmetic), CUDA_R_32F),
                  "cublasLtMatmulDescCreate"));
  const ColumnMajorMatmul seen = ToColumnMajor(args);
  const auto operation = [](Transpose transpose) -> int32_t {
    return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(seen.first.transpose)));
  RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(seen.second.transpose)));
  RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(EpilogueOf(key))));
  if (key.epilogue != Epilogue::kNone)
    RETURN_IF_ERROR(plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n));
  // The choice below depends on how these addresses are aligned.
  RETURN_IF_ERROR(plan->SetEpilogueAddresses(operands));
  const auto layout = [&](const ColumnMajorMatmul::Matrix& matrix, cudaDataType_t type, int64_t stride,
                          cublasLtMatrixLayout_t& to) {
    return lt.ToStatus(lt.cublasLtMatrixLayoutCreate(&to, type, static_cast<uint64_t>(matrix.rows),
                                                     static_cast<uint64_t>(matrix.columns), stride),
                       "cublasLtMatrixLayoutCreate");
  };
  const cudaDataType_t multiplied = CudaType(TypeOf(args.precision));
  RETURN_IF_ERROR(layout(seen.first, multiplied, key.b_stride, plan->first));
  RETURN_IF_ERROR(layout(seen.second, multiplied, key.a_stride, plan->second));
  RETURN_IF_ERROR(layout(seen.result, CudaType(key.result), key.c_stride, plan->result));

  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(
      lt.ToStatus(lt.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspace.value));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.b_alignment_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.a_alignment_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(key.c_alignment_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(key.c_alignment_bytes));
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t asked =
      lt.cublasLtMatmulAlgoGetHeuristic(handle_, plan->product, plan->first, plan->second, plan->result,
                                        plan->result, preference, 1, &best, &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  if (asked != CUBLAS_STATUS_SUCCESS || count == 0 || best.state != CUBLAS_STATUS_SUCCESS) return nullptr;
  plan->algorithm = best.algo;
  return plan;
}

absl::Status CublasLtOps::Run(const MatmulArgs& args, const Plan& plan, const Operands& operands) {
  const CublasLtLibrary& lt = **library_;
  RETURN_IF_ERROR(plan.SetEpilogueAddresses(operands));
  const float alpha = 1, beta = args.store == Store::kAdd ? 1 : 0;
  const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  ASSIGN_OR_RETURN(const CUdeviceptr workspace, queue_.Address({workspace_.get(), 0, 0}));
  const cublasStatus_t status = lt.cublasLtMatmul(
      handle_, plan.product, &alpha, pointer(operands.b), plan.first, pointer(operands.a), plan.second, &beta,
      pointer(operands.c), plan.result, pointer(operands.c), plan.result, &plan.algorithm, pointer(workspace),
      static_cast<size_t>(kWorkspace.value), reinterpret_cast<cudaStream_t>(queue_.compute_stream()));
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return queue_.Poison(Annotate(lt.ToStatus(status, "cublasLtMatmul"),
                                absl::StrCat("matmul of m ", args.m, ", n ", args.n, ", k ", args.k)));
}

absl::Status CublasLtOps::Matmul(const MatmulArgs& args) {
  return MatmulOfRows(args, args.transpose_a == Transpose::kYes ? args.m : args.k, args.n);
}

absl::Status CublasLtOps::MatmulOfRows(const MatmulArgs& args, int64_t a_stride, int64_t c_stride) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  const bool narrow = IsNarrow(args.a) || IsNarrow(args.b) || IsNarrow(args.c);
  if (narrow) RETURN_IF_ERROR(TypeObjection(args));
  RETURN_IF_ERROR(queue_.Enter());
  RETURN_IF_ERROR(EnsureReady());
  if (args.m == 0 || args.n == 0) return absl::OkStatus();
  if (args.k == 0) return absl::UnimplementedError("k is 0");
  // Copies into scratch before a decline below are harmless: nothing that anyone reads was written.
  ASSIGN_OR_RETURN(const Operands operands, Prepare(args, a_stride, c_stride));
  if (CanFuseEpilogue(args)) {
    ASSIGN_OR_RETURN(const Plan* fused, Find(args, operands));
    if (fused != nullptr) return Run(args, *fused, operands);
  }
  // What follows takes f32 alone.
  if (IsNarrow(args.c) || c_stride != args.n)
    return absl::UnimplementedError("cuBLASLt does not fuse this epilogue with such a result");
  // Without bias and epilogue, which FinishMatmul does in one pass.
  Operands plain_operands = operands;
  plain_operands.bias = plain_operands.pre_activation = 0;
  MatmulArgs plain_args = args;
  plain_args.bias = plain_args.pre_activation = Slice{};
  plain_args.epilogue = Epilogue::kNone;
  ASSIGN_OR_RETURN(const Plan* plain, Find(plain_args, plain_operands));
  if (plain == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no kernel for m ", args.m, ", n ", args.n, ", k ", args.k));
  }
  RETURN_IF_ERROR(Run(plain_args, *plain, plain_operands));
  return FinishMatmul(launcher_, args);
}

}  // namespace medley

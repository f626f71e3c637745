#include "kernels/cuda/cudnn_graph.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Create(const CudnnLibrary& library,
                                                        cudnnBackendDescriptorType_t type) {
  CudnnDescriptor descriptor;
  RETURN_IF_ERROR(library.ToStatus(library.cudnnBackendCreateDescriptor(type, &descriptor.handle_),
                                   "creating a cuDNN descriptor"));
  descriptor.library_ = &library;
  return descriptor;
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                  int64_t count, const void* values) {
  if (handle_ == nullptr) return absl::InternalError("a cuDNN descriptor that was not created");
  const cudnnStatus_t status = library_->cudnnBackendSetAttribute(handle_, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return library_->ToStatus(status, absl::StrCat("setting cuDNN attribute ", static_cast<int>(name)).c_str());
}

absl::Status CudnnDescriptor::Finalize(const char* what) {
  if (handle_ == nullptr) return absl::InternalError("a cuDNN descriptor that was not created");
  return library_->ToStatus(library_->cudnnBackendFinalize(handle_), what);
}

absl::Status CudnnPlan::Execute(cudnnHandle_t handle, absl::Span<const Binding> bindings,
                                void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> addresses;
  for (const Binding& binding : bindings) {
    ids.push_back(binding.id);
    addresses.push_back(binding.address);
  }
  ASSIGN_OR_RETURN(CudnnDescriptor pack,
                   CudnnDescriptor::Create(*library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const int64_t count = static_cast<int64_t>(bindings.size());
  RETURN_IF_ERROR(
      pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data()));
  RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data()));
  RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace));
  RETURN_IF_ERROR(pack.Finalize("the operands of a cuDNN plan"));
  return library_->ToStatus(library_->cudnnBackendExecute(handle, keeps_.back().handle(), pack.handle()),
                            "running a cuDNN plan");
}

void CudnnGraph::Check(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

CudnnDescriptor CudnnGraph::Create(cudnnBackendDescriptorType_t type) {
  auto descriptor = CudnnDescriptor::Create(library_, type);
  if (descriptor.ok()) return *std::move(descriptor);
  Check(descriptor.status());
  return {};
}

CudnnGraph::Tensor CudnnGraph::AddTensor(const TensorOptions& options) {
  CudnnDescriptor tensor = Create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Dimensions strides = options.strides;
  if (strides.empty()) {
    strides.resize(options.dimensions.size(), 1);
    for (size_t i = strides.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * options.dimensions[i];
  }
  const int64_t alignment_bytes = 16, id = options.id != 0 ? options.id : next_id_++;
  const bool is_virtual = options.storage == Storage::kVirtual,
             is_by_value = options.storage == Storage::kByValue;
  Check(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, options.type));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment_bytes));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, options.dimensions));
  Check(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, strides));
  if (is_virtual) Check(tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual));
  if (is_by_value) Check(tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, is_by_value));
  Check(tensor.Finalize("a tensor"));
  tensors_.push_back(std::move(tensor));
  return {tensors_.size() - 1};
}

void CudnnGraph::Finish(CudnnDescriptor operation, const char* what) {
  Check(operation.Finalize(what));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::AddPointwise(CudnnDescriptor mode, Tensor x, const Tensor* b, const Tensor* predicate,
                              Tensor y) {
  Check(mode.Finalize("a pointwise mode"));
  CudnnDescriptor operation = Create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode));
  Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Get(x)));
  if (b != nullptr) Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, Get(*b)));
  if (predicate != nullptr) Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, Get(*predicate)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Get(y)));
  modes_.push_back(std::move(mode));
  Finish(std::move(operation), "a pointwise operation");
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Tensor x, const Tensor* b, const Tensor* predicate,
                           Tensor y, cudnnDataType_t computing) {
  CudnnDescriptor descriptor = Create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  Check(descriptor.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode));
  Check(descriptor.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computing));
  AddPointwise(std::move(descriptor), x, b, predicate, y);
}

void CudnnGraph::Index(Tensor x, int64_t axis, Tensor y) {
  CudnnDescriptor descriptor = Create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_GEN_INDEX;
  const cudnnDataType_t computing = CUDNN_DATA_INT32;
  Check(descriptor.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode));
  Check(descriptor.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computing));
  Check(descriptor.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis));
  AddPointwise(std::move(descriptor), x, nullptr, nullptr, y);
}

void CudnnGraph::Matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor mode = Create(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t computing = CUDNN_DATA_FLOAT;
  Check(mode.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computing));
  Check(mode.Finalize("a matmul's mode"));
  CudnnDescriptor operation = Create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  Check(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, Get(a)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, Get(b)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, Get(c)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, mode));
  modes_.push_back(std::move(mode));
  Finish(std::move(operation), "a matmul");
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  CudnnDescriptor descriptor = Create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t computing = CUDNN_DATA_FLOAT;
  Check(descriptor.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode));
  Check(descriptor.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computing));
  Check(descriptor.Finalize("a reduction's mode"));
  CudnnDescriptor operation = Create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  Check(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, Get(x)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, Get(y)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, descriptor));
  modes_.push_back(std::move(descriptor));
  Finish(std::move(operation), "a reduction");
}

void CudnnGraph::Reshape(Tensor x, Tensor y) {
  CudnnDescriptor operation = Create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  Check(operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, Get(x)));
  Check(operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, Get(y)));
  Finish(std::move(operation), "a reshape");
}

namespace {

absl::Status SetTarget(CudnnDescriptor& descriptor, const CudnnTarget& target,
                       cudnnBackendAttributeName_t properties) {
  if (target.handle != nullptr || target.properties == nullptr) return absl::OkStatus();
  return descriptor.Set(properties, *target.properties);
}

// The engine configurations that cuDNN's heuristics propose, best first.
absl::StatusOr<std::vector<CudnnDescriptor>> Propose(const CudnnLibrary& library,
                                                     const CudnnDescriptor& graph,
                                                     const CudnnTarget& target) {
  constexpr int64_t kMostProposals = 16;
  std::vector<CudnnDescriptor> proposals;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < kMostProposals; ++i) {
    ASSIGN_OR_RETURN(CudnnDescriptor proposal,
                     CudnnDescriptor::Create(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(proposal.handle());
    proposals.push_back(std::move(proposal));
  }
  ASSIGN_OR_RETURN(CudnnDescriptor heuristics,
                   CudnnDescriptor::Create(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode));
  RETURN_IF_ERROR(SetTarget(heuristics, target, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
  RETURN_IF_ERROR(heuristics.Finalize("asking cuDNN for an engine"));
  int64_t count = 0;
  RETURN_IF_ERROR(library.ToStatus(
      library.cudnnBackendGetAttribute(heuristics.handle(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostProposals, &count, handles.data()),
      "reading cuDNN's engines"));
  proposals.resize(static_cast<size_t>(count));
  return proposals;
}

// Whether the engine of `proposal` says that it may give other bits from run to run.
absl::StatusOr<bool> IsNondeterministic(const CudnnLibrary& library, const CudnnDescriptor& proposal) {
  ASSIGN_OR_RETURN(CudnnDescriptor engine, CudnnDescriptor::Create(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t handle = engine.handle();
  int64_t count = 0;
  RETURN_IF_ERROR(
      library.ToStatus(library.cudnnBackendGetAttribute(proposal.handle(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
                       "reading a cuDNN engine"));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  RETURN_IF_ERROR(
      library.ToStatus(library.cudnnBackendGetAttribute(engine.handle(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                        CUDNN_TYPE_NUMERICAL_NOTE,
                                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
                       "reading a cuDNN engine's notes"));
  for (int64_t i = 0; i < count; ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<CudnnPlan> CudnnGraph::Compile(const CudnnTarget& target, Determinism determinism) && {
  RETURN_IF_ERROR(status_);
  CudnnDescriptor graph = Create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.handle());
  Check(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<int64_t>(operations.size()), operations.data()));
  if (target.handle != nullptr) {
    Check(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle));
  }
  Check(graph.Finalize("a graph"));
  RETURN_IF_ERROR(status_);
  ASSIGN_OR_RETURN(std::vector<CudnnDescriptor> proposals, Propose(library_, graph, target));
  absl::Status objection = absl::UnimplementedError("cuDNN has no engine for this graph");
  for (CudnnDescriptor& proposal : proposals) {
    if (determinism == Determinism::kRequired) {
      ASSIGN_OR_RETURN(const bool nondeterministic, IsNondeterministic(library_, proposal));
      if (nondeterministic) {
        objection = absl::UnimplementedError("cuDNN's engines for this graph are not deterministic");
        continue;
      }
    }
    ASSIGN_OR_RETURN(CudnnDescriptor plan,
                     CudnnDescriptor::Create(library_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    if (target.handle != nullptr) {
      RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle));
    }
    RETURN_IF_ERROR(SetTarget(plan, target, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP));
    RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal));
    if (const absl::Status status = plan.Finalize("compiling a cuDNN plan"); !status.ok()) {
      objection = absl::UnimplementedError(std::string(status.message()));
      continue;
    }
    CudnnPlan compiled;
    int64_t count = 0;
    RETURN_IF_ERROR(library_.ToStatus(
        library_.cudnnBackendGetAttribute(plan.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, &compiled.workspace_.value),
        "reading a cuDNN plan's workspace"));
    compiled.library_ = &library_;
    for (auto* part : {&tensors_, &modes_, &operations_}) {
      for (CudnnDescriptor& descriptor : *part) compiled.keeps_.push_back(std::move(descriptor));
    }
    compiled.keeps_.push_back(std::move(graph));
    compiled.keeps_.push_back(std::move(proposal));
    compiled.keeps_.push_back(std::move(plan));
    return compiled;
  }
  return objection;
}

}  // namespace medley

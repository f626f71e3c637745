#include "kernels/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <dnnl.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace medley {
namespace {

using dnnl::memory;

// By shape, transposes, store, bias and the result's type.
using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, bool, Dtype>;

constexpr int64_t kConvertChunk = 16384;

memory::desc Describe(int64_t rows, int64_t columns, Transpose transpose, Dtype dtype) {
  const auto type = dtype == Dtype::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  return transpose == Transpose::kYes ? memory::desc({rows, columns}, type, memory::dims{1, rows})
                                      : memory::desc({rows, columns}, type, memory::dims{columns, 1});
}

// The matrices of a product as oneDNN multiplies them.
struct Descriptions {
  explicit Descriptions(const TypedProduct& p)
      : a(Describe(p.m, p.k, p.a.transpose, Dtype::kBf16)),
        b(Describe(p.k, p.n, p.b.transpose, Dtype::kBf16)),
        c(Describe(p.m, p.n, Transpose::kNo, p.c.dtype)),
        bias(p.bias == nullptr ? memory::desc() : Describe(1, p.n, Transpose::kNo, Dtype::kF32)) {}
  memory::desc a, b, c, bias;
};

// By oneDNN, with the calling OpenMP thread's team.
void MultiplyOnTeam(const Product& product) {
  const float beta = product.store == medley::Store::kAdd ? 1.0f : 0.0f;
  if (product.k == 0) {
    if (beta != 0.0f) return;
    for (int64_t i = 0; i < product.m; ++i) std::fill_n(product.c + i * product.c_stride, product.n, 0.0f);
    return;
  }
  const auto letter = [](const Matrix& matrix) { return matrix.transpose == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(
      letter(product.a), letter(product.b), product.m, product.n, product.k, product.scale, product.a.data,
      product.a.stride, product.b.data, product.b.stride, beta, product.c, product.c_stride);
  if (status != dnnl_success) {
    throw std::runtime_error("dnnl_sgemm failed with status " + std::to_string(static_cast<int>(status)));
  }
}

// sgemm packs its operands; of a transposed b, each of its threads packs more than its share. So above this
// many columns a thread, each multiplies with columns of its own: a third faster for the head on two cores.
constexpr int64_t kFewestColumns = 64;

// Part `part` of `parts` of the columns of `product`, whole vectors but for the last.
Product ColumnsOf(Product product, int64_t part, int64_t parts) {
  constexpr int64_t kVector = 16;
  const int64_t vectors = product.n / kVector;
  const int64_t first = vectors * part / parts * kVector;
  const int64_t last = part + 1 == parts ? product.n : vectors * (part + 1) / parts * kVector;
  product.n = last - first;
  product.b.data += product.b.transpose == Transpose::kYes ? first * product.b.stride : first;
  product.c += first;
  return product;
}

}  // namespace

void MultiplyF32(const Product& product) {
  if (product.m == 0 || product.n == 0) return;
  const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  const bool shared_out = threads > 1 && product.b.transpose == Transpose::kYes && product.k > 0 &&
                          product.n >= threads * kFewestColumns;
  if (!shared_out) return MultiplyOnTeam(product);
  std::atomic<bool> failed = false;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int part = 0; part < threads; ++part) {
    // An exception may not leave a parallel region.
    try {
      MultiplyOnTeam(ColumnsOf(product, part, threads));
    } catch (const std::runtime_error&) {
      failed = true;
    }
  }
  if (failed) throw std::runtime_error("dnnl_sgemm failed");
}

struct Gemm::Primitives {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, dnnl::matmul> cache;

  const dnnl::matmul& Get(const TypedProduct& p, const Descriptions& of) {
    const bool add = p.store == medley::Store::kAdd;
    const Key key{p.m,
                  p.n,
                  p.k,
                  p.a.transpose == Transpose::kYes,
                  p.b.transpose == Transpose::kYes,
                  add,
                  p.bias != nullptr,
                  p.c.dtype};
    if (const auto found = cache.find(key); found != cache.end()) return found->second;
    dnnl::primitive_attr attributes;
    if (add) {
      dnnl::post_ops operations;
      operations.append_sum(1.0f);
      attributes.set_post_ops(operations);
    }
    const dnnl::matmul::desc description = p.bias == nullptr ? dnnl::matmul::desc(of.a, of.b, of.c)
                                                             : dnnl::matmul::desc(of.a, of.b, of.bias, of.c);
    return cache.emplace(key, dnnl::matmul({description, attributes, engine})).first->second;
  }
};

Gemm::Gemm(const VectorKernels& kernels, Bf16Matmul bf16) : kernels_(kernels), bf16_(bf16) {}
Gemm::~Gemm() = default;

const uint16_t* Gemm::Convert(const float* from, int64_t count, Bf16s& to) {
  if (static_cast<int64_t>(to.size()) < count) to.resize(count);
#pragma omp parallel for schedule(static) if (count > kConvertChunk)
  for (int64_t i = 0; i < count; i += kConvertChunk) {
    kernels_.to_bf16(from + i, to.data() + i, std::min(kConvertChunk, count - i));
  }
  return to.data();
}

void Gemm::MultiplyBf16(const TypedProduct& p, Constness b_constness) {
  if (p.m == 0 || p.n == 0) return;
  if (primitives_ == nullptr) primitives_ = std::make_unique<Primitives>();
  const Descriptions descriptions(p);
  const dnnl::matmul& matmul = primitives_->Get(p, descriptions);
  const auto rounded = [&](const TypedMatrix& matrix, int64_t count, Bf16s& room) -> const void* {
    return matrix.dtype == Dtype::kBf16 ? matrix.data
                                        : Convert(static_cast<const float*>(matrix.data), count, room);
  };
  const void* b = nullptr;
  if (b_constness == Constness::kParameter && p.b.dtype == Dtype::kF32) {
    Copy& copy = parameters_[{static_cast<const float*>(p.b.data), p.k * p.n}];
    b = copy.current ? copy.values.data() : rounded(p.b, p.k * p.n, copy.values);
    copy.current = true;
  } else {
    b = rounded(p.b, p.k * p.n, b_);
  }
  const void* a = rounded(p.a, p.m * p.k, a_);
  const auto wrap = [&](const memory::desc& description, const void* data) {
    return memory(description, primitives_->engine, const_cast<void*>(data));
  };
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, wrap(descriptions.a, a)},
                                               {DNNL_ARG_WEIGHTS, wrap(descriptions.b, b)},
                                               {DNNL_ARG_DST, wrap(descriptions.c, p.c.data)}};
  if (p.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, wrap(descriptions.bias, p.bias));
  matmul.execute(primitives_->stream, arguments);
  primitives_->stream.wait();
}

// The rows of c begin as the bias and the product is added: no pass over c after it.
void Gemm::BeginAsBias(const TypedProduct& p) {
  float* c = static_cast<float*>(p.c.data);
#pragma omp parallel for schedule(static) if (p.m * p.n > kConvertChunk)
  for (int64_t i = 0; i < p.m; ++i) {
    float* row = c + i * p.n;
    if (p.store == medley::Store::kAdd) {
      kernels_.add(row, p.bias, row, p.n);
    } else {
      std::copy_n(p.bias, p.n, row);
    }
  }
}

void Gemm::Multiply(const TypedProduct& p, Precision precision, Constness b_constness) {
  if (MultipliesBf16(precision) && p.k > 0) return MultiplyBf16(p, b_constness);
  if (p.bias != nullptr) BeginAsBias(p);
  const auto plain = [](const TypedMatrix& matrix, int64_t rows, int64_t columns) -> Matrix {
    return {static_cast<const float*>(matrix.data), matrix.transpose == Transpose::kYes ? rows : columns,
            matrix.transpose};
  };
  MultiplyF32({.m = p.m,
               .n = p.n,
               .k = p.k,
               .a = plain(p.a, p.m, p.k),
               .b = plain(p.b, p.k, p.n),
               .c = static_cast<float*>(p.c.data),
               .c_stride = p.n,
               .store = p.bias != nullptr ? medley::Store::kAdd : p.store});
}

void Gemm::ParametersChanged() {
  for (auto& [key, copy] : parameters_) copy.current = false;
}

Bytes Gemm::kept() const {
  size_t elements = a_.capacity() + b_.capacity();
  for (const auto& [key, copy] : parameters_) elements += copy.values.capacity();
  return {static_cast<int64_t>(elements * sizeof(uint16_t))};
}

}  // namespace medley

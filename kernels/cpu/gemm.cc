#include "kernels/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <dnnl.hpp>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace medley {
namespace {

using dnnl::memory;

// By shape, transposes, store, bias, the result's type and the strides of the operands.
using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, bool, Dtype, int64_t, int64_t>;

constexpr int64_t kConvertChunk = 16384;

memory::desc Describe(int64_t rows, int64_t columns, Transpose transpose, Dtype dtype, int64_t stride = 0) {
  const auto type = dtype == Dtype::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const bool transposed = transpose == Transpose::kYes;
  if (stride == 0) stride = transposed ? rows : columns;
  return memory::desc({rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
}

// The matrices of a product as oneDNN multiplies them.
struct Descriptions {
  explicit Descriptions(const TypedProduct& p)
      : a(Describe(p.m, p.k, p.a.transpose, Dtype::kBf16, p.a.stride)),
        b(Describe(p.k, p.n, p.b.transpose, Dtype::kBf16, p.b.stride)),
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
                  p.c.dtype,
                  p.a.stride,
                  p.b.stride};
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

Gemm::Gemm(HostQueue& queue, const VectorKernels& kernels, Bf16Matmul bf16)
    : queue_(queue), kernels_(kernels), bf16_(bf16), a_(queue), b_(queue) {}
Gemm::~Gemm() = default;

const void* Gemm::Convert(const float* from, int64_t count, void* to) {
  uint16_t* narrow = static_cast<uint16_t*>(to);
#pragma omp parallel for schedule(static) if (count > kConvertChunk)
  for (int64_t i = 0; i < count; i += kConvertChunk) {
    kernels_.to_bf16(from + i, narrow + i, std::min(kConvertChunk, count - i));
  }
  return narrow;
}

const void* Gemm::CopyOfParameter(const float* from, int64_t count) {
  Copy& copy = parameters_[{from, count}];
  if (copy.values == nullptr) {
    absl::StatusOr<std::unique_ptr<Buffer>> values = queue_.Allocate(count * SizeOf(Dtype::kBf16));
    if (!values.ok()) throw OutOfScratch(values.status());
    copy.values = *std::move(values);
  }
  if (!copy.current) Convert(from, count, copy.values->host_address());
  copy.current = true;
  return copy.values->host_address();
}

TypedMatrix Gemm::RoundInPlace(float* values, int64_t rows, int64_t columns) {
  constexpr int64_t kPiece = 1024;
#pragma omp parallel for schedule(static) if (rows * columns > kConvertChunk)
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = values + r * columns;
    uint16_t piece[kPiece];
    std::byte* to = reinterpret_cast<std::byte*>(values + r * columns);
    // What a piece overwrites has been read with it or before.
    for (int64_t first = 0; first < columns; first += kPiece) {
      const int64_t count = std::min(kPiece, columns - first);
      kernels_.to_bf16(from + first, piece, count);
      std::memcpy(to + first * sizeof(uint16_t), piece, count * sizeof(uint16_t));
    }
  }
  return {values, Dtype::kBf16, Transpose::kNo, 2 * columns};
}

void Gemm::MultiplyBf16(const TypedProduct& p, Constness b_constness) {
  if (p.m == 0 || p.n == 0) return;
  if (primitives_ == nullptr) primitives_ = std::make_unique<Primitives>();
  const Descriptions descriptions(p);
  const dnnl::matmul& matmul = primitives_->Get(p, descriptions);
  const auto rounded = [&](const TypedMatrix& matrix, int64_t count, Scratch& room) -> const void* {
    if (matrix.dtype == Dtype::kBf16) return matrix.data;
    return Convert(static_cast<const float*>(matrix.data), count, room.Take(count * SizeOf(Dtype::kBf16)));
  };
  const bool kept = b_constness == Constness::kParameter && p.b.dtype == Dtype::kF32;
  const void* b =
      kept ? CopyOfParameter(static_cast<const float*>(p.b.data), p.k * p.n) : rounded(p.b, p.k * p.n, b_);
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

Bytes Gemm::copies() const {
  Bytes sum;
  for (const auto& [key, copy] : parameters_) {
    if (copy.values != nullptr) sum += copy.values->size();
  }
  return sum;
}

}  // namespace medley

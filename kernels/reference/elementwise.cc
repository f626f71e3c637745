#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/reference/accept.h"

namespace medley {
namespace {

float ElementOf(const Slice& slice, int64_t i) {
  if (slice.dtype == Dtype::kF32) return HostPointer<float>(slice)[i];
  return FromNarrow(HostPointer<uint16_t>(slice)[i], slice.dtype);
}

void PutElement(const Slice& slice, int64_t i, float value) {
  if (slice.dtype == Dtype::kF32) {
    HostPointer<float>(slice)[i] = value;
  } else {
    HostPointer<uint16_t>(slice)[i] = ToNarrow(value, slice.dtype);
  }
}

}  // namespace

absl::Status ReferenceOps::Add(const AddArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* a = HostPointer<float>(args.a);
  const float* b = HostPointer<float>(args.b);
  float* c = HostPointer<float>(args.c);
  for (int64_t i = 0; i < args.elements; ++i) c[i] = a[i] + b[i];
  return absl::OkStatus();
}

absl::Status ReferenceOps::Scale(const ScaleArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* x = HostPointer<float>(args.x);
  for (int64_t i = 0; i < args.elements; ++i) x[i] *= args.factor;
  return absl::OkStatus();
}

absl::Status ReferenceOps::Cast(const CastArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.x.dtype == args.y.dtype) {
    if (args.elements > 0) {
      std::memcpy(HostPointer<std::byte>(args.y), HostPointer<std::byte>(args.x),
                  args.elements * SizeOf(args.x.dtype).value);
    }
  } else {
    for (int64_t i = 0; i < args.elements; ++i) PutElement(args.y, i, ElementOf(args.x, i));
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::SumRows(const SumRowsArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* out = HostPointer<float>(args.out);
  for (int64_t c = 0; c < args.columns; ++c) {
    double sum = out[c];
    for (int64_t r = 0; r < args.rows; ++r) sum += x[r * args.columns + c];
    out[c] = static_cast<float>(sum);
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::SquaredNorm(const SquaredNormArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  double sum = 0;
  for (int64_t i = 0; i < args.elements; ++i) sum += static_cast<double>(x[i]) * x[i];
  *HostPointer<double>(args.out) = sum;
  return absl::OkStatus();
}

absl::Status ReferenceOps::Fill(const FillArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* x = HostPointer<float>(args.x);
  for (int64_t i = 0; i < args.elements; ++i) x[i] = args.value;
  return absl::OkStatus();
}

}  // namespace medley

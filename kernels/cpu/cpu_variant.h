#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/vector_kernels.h"

namespace medley {

// How far a CPU device may go in the instruction set. In order: each includes those before it.
enum class CpuVariant { kSse41, kAvx2, kAvx512, kAvx512Bf16, kAmx };

// "sse41", "avx2", "avx512", "avx512bf16", "amx".
std::string NameOf(CpuVariant variant);

// Nothing if `name` is none of the names above.
std::optional<CpuVariant> ParseCpuVariant(const std::string& name);

// Empty if this processor and operating system can run `variant`, otherwise what they lack. Changes nothing.
std::string CpuVariantObjection(CpuVariant variant);

// Whether it has instructions for products of bf16.
bool MultipliesBf16(CpuVariant variant);

// The loops compiled for `variant`.
const VectorKernels& VectorKernelsFor(CpuVariant variant);

// Asks the operating system for the right to use the tile registers, for this process and for good.
// Empty if granted, otherwise the reason.
std::string RequestTiles();

// The names of the variants that can run here, best first; never empty on x86-64 with SSE 4.1.
std::vector<std::string> CpuVariants();

// The first of CpuVariants(), or "" if there is none.
std::string DefaultCpuVariant();

}  // namespace medley

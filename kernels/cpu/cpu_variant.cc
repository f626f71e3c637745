#include "kernels/cpu/cpu_variant.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace medley {
namespace {

constexpr std::array kVariants = {CpuVariant::kAmx, CpuVariant::kAvx512Bf16, CpuVariant::kAvx512,
                                  CpuVariant::kAvx2, CpuVariant::kSse41};

// Linux' arch_prctl codes and the number of the tile data state; glibc's headers here do not have them.
constexpr int kGetPermittedStates = 0x1022;
constexpr int kGetSupportedStates = 0x1021;
constexpr int kRequestPermission = 0x1023;
constexpr int kTileDataState = 18;

bool HasAmxInstructions() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr uint32_t kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}

std::string AmxObjection() {
  if (!HasAmxInstructions()) return "this processor has no AMX (amx_tile, amx_bf16)";
  uint64_t states = 0;
  if (syscall(SYS_arch_prctl, kGetSupportedStates, &states) != 0 || (states >> kTileDataState & 1) == 0) {
    return "the processor has AMX but the operating system does not support its tile registers";
  }
  return "";
}

}  // namespace

std::string NameOf(CpuVariant variant) {
  switch (variant) {
    case CpuVariant::kSse41:
      return "sse41";
    case CpuVariant::kAvx2:
      return "avx2";
    case CpuVariant::kAvx512:
      return "avx512";
    case CpuVariant::kAvx512Bf16:
      return "avx512bf16";
    case CpuVariant::kAmx:
      return "amx";
  }
  return "?";
}

std::optional<CpuVariant> ParseCpuVariant(const std::string& name) {
  for (CpuVariant variant : kVariants) {
    if (NameOf(variant) == name) return variant;
  }
  return std::nullopt;
}

std::string CpuVariantObjection(CpuVariant variant) {
  // __builtin_cpu_supports also asks the operating system (XGETBV) whether it saves the registers.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.1")) return "this processor has no SSE 4.1";
  if (variant >= CpuVariant::kAvx2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
    return "this processor has no AVX2 with FMA";
  }
  if (variant >= CpuVariant::kAvx512 &&
      !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))) {
    return "this processor has no AVX-512 (f, bw, dq, vl)";
  }
  if (variant >= CpuVariant::kAvx512Bf16 && !__builtin_cpu_supports("avx512bf16")) {
    return "this processor has no AVX-512 for bf16 (avx512_bf16)";
  }
  return variant >= CpuVariant::kAmx ? AmxObjection() : "";
}

bool MultipliesBf16(CpuVariant variant) { return variant >= CpuVariant::kAvx512Bf16; }

const VectorKernels& VectorKernelsFor(CpuVariant variant) {
  switch (variant) {
    case CpuVariant::kSse41:
      return kVectorKernelsSse41;
    case CpuVariant::kAvx2:
      return kVectorKernelsAvx2;
    case CpuVariant::kAvx512:
    case CpuVariant::kAvx512Bf16:
    case CpuVariant::kAmx:
      return kVectorKernelsAvx512;
  }
  return kVectorKernelsSse41;
}

std::string RequestTiles() {
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileDataState) != 0) {
    return std::string("the operating system refuses the AMX tile registers: ") + std::strerror(errno);
  }
  uint64_t permitted = 0;
  if (syscall(SYS_arch_prctl, kGetPermittedStates, &permitted) != 0 ||
      (permitted >> kTileDataState & 1) == 0) {
    return "the operating system did not permit the AMX tile registers";
  }
  return "";
}

std::vector<std::string> CpuVariants() {
  std::vector<std::string> names;
  for (CpuVariant variant : kVariants) {
    if (CpuVariantObjection(variant).empty()) names.push_back(NameOf(variant));
  }
  return names;
}

std::string DefaultCpuVariant() {
  const std::vector<std::string> names = CpuVariants();
  return names.empty() ? "" : names.front();
}

}  // namespace medley

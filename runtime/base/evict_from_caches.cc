#include "runtime/base/evict_from_caches.h"

namespace medley {
namespace {

constexpr size_t kLineBytes = 64;  // or more: then some lines are evicted twice

#if defined(__x86_64__)
void EvictLine(const std::byte* address) { __builtin_ia32_clflush(address); }
void AwaitEvictions() { __builtin_ia32_mfence(); }
#elif defined(__aarch64__)
void EvictLine(const std::byte* address) { asm volatile("dc civac, %0" ::"r"(address) : "memory"); }
void AwaitEvictions() { asm volatile("dsb sy" ::: "memory"); }
#else
void EvictLine(const std::byte*) {}
void AwaitEvictions() {}
#endif

}  // namespace

void EvictFromCaches(absl::Span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kLineBytes) EvictLine(bytes.data() + at);
  if (!bytes.empty()) EvictLine(&bytes.back());
  AwaitEvictions();
}

}  // namespace medley

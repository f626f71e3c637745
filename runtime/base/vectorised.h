#pragma once

// Before a function: several versions of it, for wider registers than all processors have, are compiled, of which one is
// chosen at load time. That runs before a sanitizer is ready for it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || \
    defined(__clang__)
#define MEDLEY_VECTORISED
#else
#define MEDLEY_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#pragma once

// MONOGRAPH_PER_INSTRUCTION_SET before a function: g++ compiles it once for each of AVX-512, AVX2
// and plain x86-64, and the loader takes the best that the processor has. The loader asks a
// resolver, which g++ instruments like any function; under a sanitizer it would run before the
// sanitizer's own library is set up, and end the process before main (g++ 12 and 13).
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MONOGRAPH_PER_INSTRUCTION_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MONOGRAPH_PER_INSTRUCTION_SET
#endif

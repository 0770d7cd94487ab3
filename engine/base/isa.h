// NACRE_ISA: the inline namespace of all code that is compiled into kernels. A port that compiles its files with
// instruction sets of its own defines it there, -DNACRE_ISA=avx512, so that no function of these files has the name of
// one that other files have too: of two inline functions of one name the linker keeps either, and an old processor may
// get the one that it cannot run. tests/architecture.sh looks for such names.
//
// Types that ports and engine share (tensor.h, status.h, op.h, kernel.h, rounding.h) lie in nacre itself: each has to
// be one type. Their small functions are marked NACRE_SHARED, which leaves no copy of them in such files.
#pragma once

#ifdef __CUDACC__
#define NACRE_SHARED __host__ __device__
#elif defined NACRE_ISA
#define NACRE_SHARED [[gnu::always_inline]]
#else
#define NACRE_ISA portable
#define NACRE_SHARED
#endif

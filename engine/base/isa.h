// NACRE_ISA is the inline namespace of all code that is compiled into kernels. A port that compiles its files for an
// instruction set of its own defines it there, -DNACRE_ISA=avx512. Then no function of these files has the same name
// as one of other files. Otherwise the linker would keep either of two inline functions of one name, and an old
// processor might get the one that it cannot run. tests/architecture.sh looks for such names.
//
// Types that ports and the engine share (tensor.h, status.h, op.h, kernel.h, rounding.h) are in namespace nacre
// itself, because each must be one type. Their small functions are marked NACRE_SHARED, which leaves no copy of them
// in such files.
#pragma once

#ifdef __CUDACC__
#define NACRE_SHARED __host__ __device__
#elif defined NACRE_ISA
#define NACRE_SHARED [[gnu::always_inline]]
#else
#define NACRE_ISA portable
#define NACRE_SHARED
#endif

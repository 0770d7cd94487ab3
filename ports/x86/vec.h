// The vectors of the tier that is compiled, NACRE_ISA: ports/x86/meson.build has its flags.
#pragma once

#if defined(__AVX512F__)
#include "ports/x86/vec_avx512.h"
#elif defined(__AVX2__)
#include "ports/x86/vec_avx2.h"
#else
#include "engine/simd/vec.h"
namespace nacre::inline NACRE_ISA {
using Vector = Lanes<4>;
}  // namespace nacre::inline NACRE_ISA
#endif

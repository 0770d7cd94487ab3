// Random cases of the quantizers that training simulates, for kernels_correct_reference.cc: with codes between which
// numbers lie half-way, empty and infinite ranges, NaN, and channels along every axis.
#pragma once

#include "tests/claims/kernels_correct_reference.h"

namespace nacre::test {

void fake_quantize_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_quantize_gradient_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_quantize_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void observe_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_float8_case(const KernelEntry& entry, Random& random, ReferenceCase& made);

}  // namespace nacre::test

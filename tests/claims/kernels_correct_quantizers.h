// Random cases for the quantizers that training simulates, used by kernels_correct_reference.cc. They have numbers
// half-way between codes, empty and infinite ranges, NaN, and channels along every axis.
#pragma once

#include "tests/claims/kernels_correct_reference.h"

namespace nacre::test {

void fake_quantize_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_quantize_gradient_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_quantize_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void observe_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void fake_float8_case(const KernelEntry& entry, Random& random, ReferenceCase& made);

}  // namespace nacre::test

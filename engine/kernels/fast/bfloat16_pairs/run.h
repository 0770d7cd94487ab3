// Code that runs the forms of forms.h; included where kernels are compiled for an instruction set.
#pragma once

#include "engine/kernels/fast/bfloat16_pairs/forms.h"
#include "engine/kernels/fast/gradient/run.h"
#include "engine/kernels/fast/row_major_fused/run.h"

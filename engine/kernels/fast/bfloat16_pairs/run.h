// Code of the kernel forms that forms.h declares. It is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/bfloat16_pairs/forms.h"
#include "engine/kernels/fast/gradient/run.h"
#include "engine/kernels/fast/row_major_fused/run.h"

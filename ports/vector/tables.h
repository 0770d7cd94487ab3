// What the table of a port of fast kernels is made of (fast/entries.inc): what the kernels of each tier take, in plain
// C++, so that every machine can ask what a model for one of them needs; and the set and the port of a tier.
#pragma once

#include "engine/kernels/fast/batched/forms.h"
#include "engine/kernels/fast/batched_gradient/forms.h"
#include "engine/kernels/fast/broadcast_gradient/forms.h"
#include "engine/kernels/fast/decoded/forms.h"
#include "engine/kernels/fast/depthwise/forms.h"
#include "engine/kernels/fast/entry.h"
#include "engine/kernels/fast/function_gradient/forms.h"
#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/groups/forms.h"
#include "engine/kernels/fast/layer_gradient/forms.h"
#include "engine/kernels/fast/matmul/forms.h"
#include "engine/kernels/fast/move/forms.h"
#include "engine/kernels/fast/move_gradient/forms.h"
#include "engine/kernels/fast/optimizer/forms.h"
#include "engine/kernels/fast/pair/forms.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/fast/quantizer/forms.h"
#include "engine/kernels/fast/recurrent/forms.h"
#include "engine/kernels/fast/reduction/forms.h"
#include "engine/kernels/fast/row_gradient/forms.h"
#include "engine/kernels/fast/row_major/forms.h"
#include "engine/kernels/fast/row_major_fused/forms.h"
#include "engine/kernels/fast/sequence/forms.h"
#include "engine/kernels/fast/window_gradient/forms.h"
#include "engine/kernels/sorted_list.h"

namespace nacre {

// engine/run/weight_packing.cc packs weights for these kernels when a program is bound. Its name stands here, so that
// an image with the tables links it.
extern const char kWeightPacking;
[[gnu::used]] constinit static const char* const kPacking = &kWeightPacking;

template <const auto& kList>
constexpr KernelSet tier_set(const char* name) {
  return {name, kList.entries};
}
constexpr Port tier_port(const KernelSet& set) {
  return {.name = set.name,
          .set = &set,
          .context = nullptr,
          .begin = nullptr,
          .finish = nullptr,
          .copy = nullptr,
          .fill = nullptr,
          .alignment = 64};
}

}  // namespace nacre

// What the table of a port of fast kernels is made of (fast_entries.inc): what the kernels of each tier take, in plain
// C++, so that every machine can ask what a model for one of them needs; and the set and the port of a tier.
#pragma once

#include "engine/kernels/fast_batched.h"
#include "engine/kernels/fast_batched_gradient.h"
#include "engine/kernels/fast_broadcast_gradient.h"
#include "engine/kernels/fast_decoded.h"
#include "engine/kernels/fast_depthwise.h"
#include "engine/kernels/fast_entry.h"
#include "engine/kernels/fast_function_gradient.h"
#include "engine/kernels/fast_gradient.h"
#include "engine/kernels/fast_groups.h"
#include "engine/kernels/fast_layer_gradient.h"
#include "engine/kernels/fast_matmul.h"
#include "engine/kernels/fast_move.h"
#include "engine/kernels/fast_move_gradient.h"
#include "engine/kernels/fast_optimizer.h"
#include "engine/kernels/fast_pair.h"
#include "engine/kernels/fast_pointwise.h"
#include "engine/kernels/fast_quantizer.h"
#include "engine/kernels/fast_recurrent.h"
#include "engine/kernels/fast_reduction.h"
#include "engine/kernels/fast_row_gradient.h"
#include "engine/kernels/fast_row_major.h"
#include "engine/kernels/fast_row_major_fused.h"
#include "engine/kernels/fast_sequence.h"
#include "engine/kernels/fast_window_gradient.h"
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

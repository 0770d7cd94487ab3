// Two numbers that `update` keeps and its outputs do not tell.
#pragma once

#include "engine/model/model.h"

namespace nacre {

struct StepNumbers {            // tensors; kNoIndex: there is none
  uint32_t samples = kNoIndex;  // that verdict counts (its third operand): float32, a sum of the step
  uint32_t floor = kNoIndex;    // counters of adjust_loss_scale (its fourth operand): 3 uint32, the third is how often
                                // in a row the loss scale was at its floor
};

StepNumbers step_numbers(const Model& model, const ProgramView& update);

}  // namespace nacre

// Finds float8 codes that later steps read transposed. The step that quantizes then writes both at once
// (turned_kernels.h).
//
//   q = fake_float8(x, ..)   p = transpose(q)        the first step writes p too, and the second is dropped
//   e = fake_float8(dy, ..)  dw += product(e, q)     both factors are needed transposed (product_step.h): e^T and q^T
//                                                    go to memory that lives as long as the recording
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ports/cuda/product_step.h"
#include "ports/cuda/step_groups.h"

namespace nacre::cuda {

struct RecordedStep {
  const KernelEntry* entry;  // null for a copy
  const StepHead* image;
  int rows;
  std::vector<Touched> touched;
};

struct TurnedCodes {
  static constexpr size_t kNone = ~size_t{0};
  size_t step;        // the step that quantizes
  const void* codes;  // the codes that it makes, [rows, columns], for the rows of this run
  int rows, columns;
  size_t transpose = kNone;           // the step that would transpose the codes and is dropped
  std::byte* to = nullptr;            // address of the transpose, in that step's operand or in extra memory
  std::vector<size_t> products = {};  // steps that read the transpose

  size_t bytes_besides() const { return transpose == kNone ? size_t(rows) * size_t(columns) : 0; }
};

// Returns at most one for each step that quantizes. `has_products` says whether cuBLASLt is available.
std::vector<TurnedCodes> turned_codes(std::span<const RecordedStep> steps, bool has_products);

// Returns whether the copy that a product makes of the codes is the transpose that `codes` already made.
bool is_copy_of(const TurnedCodes& codes, const CopyOfRows& copy);

}  // namespace nacre::cuda

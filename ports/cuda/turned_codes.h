// Finds float8 codes that later steps read turned: the step that quantizes writes both at once (turned_kernels.h).
//
//   q = fake_float8(x, ..)   p = transpose(q)        the first step writes p too, and the second is none
//   e = fake_float8(dy, ..)  dw += product(e, q)     both factors are needed turned (product_step.h): memory that lives
//                                                    as long as the recording takes e^T and q^T
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ports/cuda/product_step.h"
#include "ports/cuda/step_groups.h"

namespace nacre::cuda {

struct RecordedStep {
  const KernelEntry* entry;  // null: a copy
  const StepHead* image;
  int rows;
  std::vector<Touched> touched;
};

struct TurnedCodes {
  static constexpr size_t kNone = ~size_t{0};
  size_t step;        // that quantizes
  const void* codes;  // what it makes, [rows, columns] of as many rows as run
  int rows, columns;
  size_t transpose = kNone;           // the step that would turn them, and is none then
  std::byte* to = nullptr;            // where the transpose comes: where that step would put it, or memory besides
  std::vector<size_t> products = {};  // that read it there

  size_t bytes_besides() const { return transpose == kNone ? size_t(rows) * size_t(columns) : 0; }
};

// At most one for each step that quantizes. `has_products`: cuBLASLt is there.
std::vector<TurnedCodes> turned_codes(std::span<const RecordedStep> steps, bool has_products);

// Returns whether the copy that a product makes of codes is just the one that stands for `codes` already.
bool is_copy_of(const TurnedCodes& codes, const CopyOfRows& copy);

}  // namespace nacre::cuda

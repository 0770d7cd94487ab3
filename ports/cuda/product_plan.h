// The plan of the matrices that a step multiplies (product_step.h). product_step.cc lays them out in the step's
// scratch. Only these files use the plan.
#pragma once

#include "engine/kernels/kernel.h"
#include "ports/cuda/cublaslt.h"

namespace nacre::cuda {

// Y [rows, columns] = L' [rows, terms] R' [terms, columns], all row-major; `batch` of these products, one after
// another.
struct Factor {
  int operand;
  bool transposed;      // whether memory holds the transpose of L' or R'
  bool repeated;        // whether all products of the batch share it
  bool beside = false;  // whether the batch's matrices lie side by side, in the same rows
};
struct Plan {
  int rows = 0, columns = 0, terms = 0, batch = 1;
  Factor left = {0, false, false}, right = {0, false, false};
  int windows = -1;            // the operand whose windows are a factor, as a matrix [rows of windows, length]; or -1
  bool uses = false;           // whether these windows are uses of dy
  bool turns_weights = false;  // whether the right factor is w turned
  bool sums = false, adds = false, zeros = false;
  bool grouped = false;                              // whether the batch is the groups of a convolution
  bool turned = false;                               // both factors are stored transposed; copies are turned
  int bias = -1, left_scale = -1, right_scale = -1;  // numbers of operands; -1: none
  LtType result = kLtF32;                            // the type that the library writes
  // Terms and columns, rounded up to whole units that the library takes.
  int whole_terms = 0, whole_columns = 0;

  int groups() const { return grouped ? batch : 1; }
  // The left factor is made from x or dy, whose groups of channels lie side by side. The right one is too, or is w.
  void take_groups(int count, bool right_too) {
    batch = count, grouped = count > 1;
    left.beside = grouped, right.beside = grouped && right_too;
  }
};

bool type_of(ElementType element, LtType* type);  // false: the library lacks it
size_t bytes_of(LtType type);
inline int whole(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Returns false if the step is no product.
bool plan_of(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan);

}  // namespace nacre::cuda

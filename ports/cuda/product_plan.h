// Plan of the matrices that a step multiplies (product_step.h): product_step.cc lays them out in the step's scratch.
// Private to the two.
#pragma once

#include "engine/kernels/kernel.h"
#include "ports/cuda/cublaslt.h"

namespace nacre::cuda {

// Y [rows, columns] = L' [rows, terms] R' [terms, columns], all in rows; `batch` of them one behind the other.
struct Factor {
  int operand;
  bool transposed;      // what lies there is the transpose of L' or R'
  bool repeated;        // it is the same for every one of the batch
  bool beside = false;  // matrices of the batch lie beside each other, in the same rows
};
struct Plan {
  int rows = 0, columns = 0, terms = 0, batch = 1;
  Factor left = {0, false, false}, right = {0, false, false};
  int windows = -1;            // the operand whose windows are that factor, as a matrix [rows of windows, length]
  bool uses = false;           // these windows are uses of dy
  bool turns_weights = false;  // the right factor is w turned
  bool sums = false, adds = false, zeros = false;
  bool grouped = false;                              // the batch are the groups of a convolution
  bool turned = false;                               // both factors lie there as their transposes: copies are turned
  int bias = -1, left_scale = -1, right_scale = -1;  // operands
  LtType result = kLtF32;                            // of what the library writes
  // Terms and columns in whole units of what the library takes.
  int whole_terms = 0, whole_columns = 0;

  int groups() const { return grouped ? batch : 1; }
  // The left factor is made of x or dy, whose groups of channels lie beside each other; the right one too, or of w.
  void take_groups(int count, bool right_too) {
    batch = count, grouped = count > 1;
    left.beside = grouped, right.beside = grouped && right_too;
  }
};

bool type_of(ElementType element, LtType* type);  // false: none of the library's
size_t bytes_of(LtType type);
inline int whole(int n, int unit) { return (n + unit - 1) / unit * unit; }

// False: the step is no product.
bool plan_of(const KernelEntry& entry, const Words& words, const Operands& operands, Plan* plan);

}  // namespace nacre::cuda

// Steps that are products of cuBLASLt (product.h), and the kernels around them (product_kernels.h).
//
//   dense, conv2d                    y = epilogue(x W^T); a convolution writes its windows to columns unless they are x
//   dense_gradient_x                 dx = dy W
//   conv2d_gradient_x                dx = uses(dy) turned(W), or dy W of single pixels
//   dense_gradient_w, conv2d's       dw += dy^T x, or dy^T columns(x)
//   dense_float8_gradient_w          dw += (t_dy t_x) dy^T x, of both turned; conv2d's of turned columns(x)
//   batched_matmul                   if both operands have the same leading dims, or one of them has none
//   its gradients                    if both operands have the same leading dims
//
// of float32, float64, float16 and bfloat16, of int8 and of float8 with scales of float32. The groups of a
// convolution are a batch if the part of a group in each operand is whole pieces of 16 bytes; else the port's kernel
// runs. If the library does not take a size (int8: terms and outputs in fours; float8: 16 terms and 16 bytes of
// outputs; matrices of a batch: 16 bytes), the operands are copied with zeros behind them. If x and w have one scale
// each and the library can add the bias, it writes y of float8 itself. Other steps run on the port's own kernels.
#pragma once

#include <cstddef>

#include "engine/kernels/kernel.h"
#include "ports/cuda/product.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// Copy of a matrix [rows, columns] of elements of 1, 2, 4 or 8 bytes to [to_rows, to_columns]: padded with zeros, or
// a part of the matrix.
struct CopyOfRows {
  const void* from;
  std::byte* to;  // null: no copy
  size_t element_bytes;
  int rows, columns, to_rows, to_columns;
  bool turned = false;  // what lies there is the transpose
  bool adds = false;    // adds float32 numbers to those at `to`
};

// A step made of a product. Names are names of kernels; null: the step does not need this kernel.
struct ProductStep {
  Product product;
  const char* columns = nullptr;            // before it: the windows of x, to `columns_at`
  const char* turned = nullptr;             // before it: w of a gradient of x, to `weights_at`
  const char* weights = nullptr;            // before the sums: of int8, to `weights_at`
  CopyOfRows left = {}, right = {};         // before it: its operands
  CopyOfRows result = {};                   // behind it
  bool sums = false;                        // behind it: the kernel <entry>Sums makes y of the sums at `sums_at`
  int row_of_columns = 0, row_of_sums = 0;  // numbers
  int rows_of_columns = 0;                  // of turned ones
  uint64_t columns_numbers = 0, turned_numbers = 0;
  std::byte *columns_at = nullptr, *sums_at = nullptr, *weights_at = nullptr;  // in the step's scratch
  int out = 0;                                                                 // columns of y
};

// False: the step is no product. `image`: of the step, with `rows` as in the run.
bool product_of(const KernelEntry& entry, const StepHead& image, int rows, ProductStep* made);

// Returns the bytes of scratch that the product of a step takes; 0: the step is no product.
size_t product_scratch(const KernelEntry& entry, const Words& words, const Operands& operands);

}  // namespace nacre::cuda

// Steps whose products cuBLASLt makes (product.h), and the kernels around them (product_kernels.h).
//
//   dense, conv2d                    y = epilogue(x W^T); a convolution writes its windows to columns unless they are x
//   dense_gradient_x                 dx = dy W
//   conv2d_gradient_x                dx = uses(dy) turned(W), or dy W of single pixels
//   dense_gradient_w, conv2d's       dw += dy^T x, or dy^T columns(x)
//   dense_float8_gradient_w          dw += (t_dy t_x) dy^T x, of both turned; conv2d's of turned columns(x)
//   batched_matmul                   if both operands have the same leading dims, or one of them has none
//   its gradients                    if both operands have the same leading dims
//
// The types are float32, float64, float16, bfloat16, int8, and float8 with scales of float32. The groups of a
// convolution become a batch if each group's part of every operand is whole pieces of 16 bytes; else the port's
// kernel runs. The library demands: int8, terms and outputs in fours; float8, 16 terms and 16 bytes of outputs;
// matrices of a batch, 16 bytes. For other sizes the operands are copied and padded with zeros. If x and w have one
// scale each and the library can add the bias, it writes y of float8 itself. Other steps run on the port's own
// kernels.
#pragma once

#include <cstddef>

#include "engine/kernels/kernel.h"
#include "ports/cuda/product.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// A copy of a matrix [rows, columns], with elements of 1, 2, 4 or 8 bytes, to [to_rows, to_columns]: padded with
// zeros, or only a part of the matrix.
struct CopyOfRows {
  const void* from;
  std::byte* to;  // null if no copy is needed
  size_t element_bytes;
  int rows, columns, to_rows, to_columns;
  bool turned = false;  // whether the copy is transposed
  bool adds = false;    // whether float32 numbers are added to the target
};

// A step that is made with a product. Strings are names of kernels; null if the step does not need this kernel.
struct ProductStep {
  Product product;
  const char* columns = nullptr;            // kernel before the product: writes the windows of x to `columns_at`
  const char* turned = nullptr;             // kernel before the product: writes w for a gradient of x to `weights_at`
  const char* weights = nullptr;            // kernel before the sums: writes sums of int8 weights to `weights_at`
  CopyOfRows left = {}, right = {};         // copies of the product's operands, made before it
  CopyOfRows result = {};                   // copy of the product's result, made after it
  bool sums = false;                        // whether kernel <entry>Sums makes y of `sums_at` after the product
  int row_of_columns = 0, row_of_sums = 0;  // numbers in a row
  int rows_of_columns = 0;                  // rows of turned columns
  uint64_t columns_numbers = 0, turned_numbers = 0;
  std::byte *columns_at = nullptr, *sums_at = nullptr, *weights_at = nullptr;  // addresses in the step's scratch
  int out = 0;                                                                 // columns of y
};

// Returns false if the step is no product. `image` is the step's; `rows` is the number of rows in this run.
bool product_of(const KernelEntry& entry, const StepHead& image, int rows, ProductStep* made);

// Returns the bytes of scratch that the product of a step takes; 0 if the step is no product.
size_t product_scratch(const KernelEntry& entry, const Words& words, const Operands& operands);

}  // namespace nacre::cuda

// Which steps are products that cuBLASLt makes (product.h), and with which kernels around them (product_kernels.h).
//
//   dense, conv2d of one group       y = epilogue(x W^T), a convolution of its windows in columns where they are not x
//   dense_gradient_x                 dx = dy W; of a convolution of single pixels
//   dense_gradient_w, conv2d's       dw += dy^T x, or dy^T columns(x)
//   batched_matmul, its gradients    where both operands have the same leading dims, or one of them has none
//
// of float32, float16 and bfloat16, of int8 and of float8 with scales of float32. Other steps, and those whose sizes
// the library does not take, run on the port's own kernels.
#pragma once

#include <cstddef>

#include "engine/kernels/kernel.h"
#include "ports/cuda/product.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// A step made of a product. Names are of kernels; those that are null are not needed.
struct ProductStep {
  Product product;
  const char* columns = nullptr;  // before it: the windows of x, to `columns_at`
  const char* weights = nullptr;  // before the sums: of int8, to `weights_at`
  bool sums = false;              // behind it: the kernel <entry>Sums makes y of the sums at `sums_at`
  int columns_of = 0;             // the operand that x is
  std::byte *columns_at = nullptr, *sums_at = nullptr, *weights_at = nullptr;  // in the step's scratch
  int rows = 0, out = 0, terms = 0;                                            // of y, and of a sum
};

// False: the step is none. `image`: of the step, with `rows` as a run has them.
bool product_of(const KernelEntry& entry, const StepHead& image, int rows, ProductStep* made);

// Bytes of scratch that it takes: 0 where it is none.
size_t product_scratch(const KernelEntry& entry, const Words& words, const Operands& operands);

}  // namespace nacre::cuda

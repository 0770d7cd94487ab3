// How long a matrix product takes on a GPU, estimated from gpu_rates.h: what cuBLASLt on Tensor Cores would need, in a
// CUDA graph. Nothing is measured, and small products reach less of the rates than this takes them to.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/model.h"
#include "engine/numeric/policy.h"
#include "tools/evaluate/gpu_rates.h"

namespace nacre::tools {

// y [m, n] = x [m, k] w [n, k]^T, `count` times: rows, features and terms of a layer. A convolution's rows are the
// places of its windows, whose terms are gathered first where the window is more than one element.
struct Product {
  int64_t m = 0, n = 0, k = 0, count = 1;
  bool gathers = false;

  double operations() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
};

// Product of a dense, conv2d or batched_matmul step; nothing for any other.
std::optional<Product> product_of(const Model& model, const StepRecord& step);
bool is_product_gradient(const Model& model, const StepRecord& step);  // one more product of as many operations

// Form of a product whose time is estimated.
struct ProductForm {
  ElementType type = ElementType::kFloat32;  // of the operands: float32, float16, bfloat16, int8, float8_e4m3
  double weight_bits = 0;                    // stored; 0: those of the type
  bool dynamic = false;                      // int8: x is quantized at run time
};

// That a policy asks for. In training the codes of int8 are simulated in the compute type. Nothing: no type of those.
std::optional<ProductForm> form_of(const Policy& policy, bool trains);

bool has_tensor_cores(const GpuArchitecture& gpu, ElementType type);
// The 16-bit type of its Tensor Cores to compare with: bfloat16 where they take it, else float16.
ElementType half_type(const GpuArchitecture& gpu);

// Microseconds of `passes` products: 1 infers; 2 or 3 train, with the gradients of w and x.
//
//   float32, 16 bits   passes (max(2 m n k / R, bytes / B) + kernel)
//   int8               + the kernel that makes codes of its int32 sums; dynamic: + the one that quantizes x
//   float8, 1 pass     + the kernel that quantizes x: 3 m k bytes
//   float8, training   + 4 (m k + n k + m n) bytes / B + 6: x, w and dy are quantized, as they are and transposed
//   gathered           + the kernel that writes m k elements, for each pass
double product_us(const Product& product, int passes, const ProductForm& form, const GpuArchitecture& gpu);

// Microseconds of a step that is no such product: it reads and writes its operands once.
double step_us(const Model& model, const StepRecord& step, const GpuArchitecture& gpu);

}  // namespace nacre::tools

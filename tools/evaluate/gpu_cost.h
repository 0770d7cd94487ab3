// Estimates from gpu_rates.h how long a matrix product takes on a GPU, with cuBLASLt on Tensor Cores in a CUDA graph.
// Nothing is measured. Small products reach less of the rates than is assumed here.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/model/model.h"
#include "engine/numeric/policy.h"
#include "tools/evaluate/gpu_rates.h"

namespace nacre::tools {

// y [m, n] = x [m, k] w [n, k]^T, `count` times: rows, features and terms of a layer. A convolution's rows are the
// positions of its windows. If a window has more than one element, its terms are gathered first.
struct Product {
  int64_t m = 0, n = 0, k = 0, count = 1;
  bool gathers = false;

  double operations() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
};

// Returns the product of a dense, conv2d or batched_matmul step, or nothing for any other step.
std::optional<Product> product_of(const Model& model, const StepRecord& step);
// Returns whether the step makes a gradient of such a product. That is a product of as many operations.
bool is_product_gradient(const Model& model, const StepRecord& step);

// The types of a product whose time is estimated.
struct ProductForm {
  ElementType type = ElementType::kFloat32;  // of the operands: float32, float16, bfloat16, int8, float8_e4m3
  double weight_bits = 0;                    // bits of a stored weight; 0: as in `type`
  bool dynamic = false;                      // with int8: x is quantized at run time
};

// Returns the form that a policy asks for, or nothing if its type is none of these. In training int8 codes are
// simulated in the compute type.
std::optional<ProductForm> form_of(const Policy& policy, bool trains);

bool has_tensor_cores(const GpuArchitecture& gpu, ElementType type);
// Returns the 16-bit type to compare with: bfloat16 if the GPU's Tensor Cores take it, else float16.
ElementType half_type(const GpuArchitecture& gpu);

// Returns the microseconds of `passes` products: 1 infers; 2 or 3 train, with the gradients of w and x. R: operations,
// B: bytes per second that the GPU reaches; kernel: kKernelUs. With `count` products all work and bytes are as many.
//   float32, 16 bits   passes (max(2 m n k / R, bytes / B) + kernel)
//   int8               + the kernel that makes codes from the int32 sums; dynamic: + the one that quantizes x
//   float8, 1 pass     + the kernel that quantizes x: 3 m k bytes
//   float8, training   + 4 (m k + n k + m n) bytes / B + 6: x, w and dy are quantized, both plain and transposed
//   gathered           + the kernel that writes m k elements, for each pass
double product_us(const Product& product, int passes, const ProductForm& form, const GpuArchitecture& gpu);

// Returns the microseconds of a step that is no such product: it reads and writes its operands once.
double step_us(const Model& model, const StepRecord& step, const GpuArchitecture& gpu);

}  // namespace nacre::tools

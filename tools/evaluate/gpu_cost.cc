#include "tools/evaluate/gpu_cost.h"

#include <algorithm>

#include "engine/ops/batched_matmul.h"
#include "engine/ops/conv.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {
namespace {

// Returns the operations per second that a product of this type reaches.
double rate(const GpuArchitecture& gpu, ElementType type) {
  if (!has_tensor_cores(gpu, type)) return gpu.float32 * kReached.float32;
  if (type == ElementType::kInt8) return gpu.int8 * kReached.eight_bits;
  if (type == ElementType::kFloat8E4M3) return gpu.float8 * kReached.eight_bits;
  return gpu.half * kReached.half;
}

double memory_us(double bytes, const GpuArchitecture& gpu) { return bytes / (gpu.memory * kReached.memory) * 1e6; }
double kernel_us(double bytes, const GpuArchitecture& gpu) { return memory_us(bytes, gpu) + kKernelUs; }

double bytes_of(ElementType type) { return double(element_bits(type)) / 8; }

// Returns the bytes of an element of the result: 2 for float8, 4 (the int32 sum) for int8, else those of the type.
double result_bytes(ElementType type) {
  if (type == ElementType::kFloat8E4M3) return 2;
  return type == ElementType::kInt8 ? 4 : bytes_of(type);
}

}  // namespace

std::optional<Product> product_of(const Model& model, const StepRecord& step) {
  if (step.operand_count < 3) return std::nullopt;
  const uint32_t* const ids = model.operands(step);
  const auto record = [&](uint32_t i) -> const TensorRecord* {
    const uint32_t id = ids[i] & kOperandIdMask;
    return id == kNoOperand ? nullptr : &model.tensors()[id];
  };
  const TensorRecord *const x = record(0), *const w = record(1), *const y = record(uint32_t{step.operand_count} - 1);
  if (x == nullptr || w == nullptr || y == nullptr || x->rank == 0 || y->rank == 0) return std::nullopt;
  int64_t rows = 1;
  for (int i = 0; i + 1 < y->rank; ++i) rows *= y->dims[i];
  const int64_t features = y->dims[y->rank - 1];
  const Words words = model.words(step);
  if (is_product_gradient(model, step)) return std::nullopt;
  if (step.op == Op::kDense && w->rank == 2) return Product{.m = rows, .n = features, .k = w->dims[1]};
  if (step.op == Op::kConv2d && w->rank == 4) {
    const int64_t groups = int64_t{words[Conv2d::kGroups]} + 1;
    return Product{.m = rows,
                   .n = features / groups,
                   .k = int64_t{w->dims[1]} * w->dims[2] * w->dims[3],
                   .count = groups,
                   .gathers = w->dims[1] * w->dims[2] != 1};
  }
  if (step.op != Op::kBatchedMatmul || x->rank < 2 || y->rank < 2) return std::nullopt;
  const int64_t m = y->dims[y->rank - 2];
  const int64_t k = x->dims[x->rank - (words[BatchedMatmul::kTransposeA] != 0 ? 2 : 1)];
  return Product{.m = m, .n = features, .k = k, .count = rows / m};
}

// A dense step whose first operand is float8_e5m2 makes the gradient of x from codes of the gradient of y
// (engine/ops/dense.h).
bool is_product_gradient(const Model& model, const StepRecord& step) {
  constexpr Op kGradients[] = {Op::kDenseGradientX,         Op::kDenseGradientW,        Op::kDenseFloat8GradientW,
                               Op::kConv2dGradientX,        Op::kConv2dGradientW,       Op::kConv2dFloat8GradientW,
                               Op::kBatchedMatmulGradientA, Op::kBatchedMatmulGradientB};
  if (step.op != Op::kDense) return std::ranges::find(kGradients, step.op) != std::end(kGradients);
  const uint32_t x = model.operands(step)[0] & kOperandIdMask;
  return x != kNoOperand && model.tensors()[x].element == ElementType::kFloat8E5M2;
}

std::optional<ProductForm> form_of(const Policy& policy, bool trains) {
  using enum ElementType;
  const bool real = policy.compute == kFloat32 || policy.compute == kFloat16 || policy.compute == kBfloat16;
  switch (policy.quantization) {
    case Quantization::kInt8Static:
    case Quantization::kInt8Full:
    case Quantization::kInt8Dynamic:
      if (trains) break;
      return ProductForm{.type = kInt8, .dynamic = policy.quantization == Quantization::kInt8Dynamic};
    case Quantization::kFloat8:
    case Quantization::kFloat8Current: return ProductForm{.type = kFloat8E4M3};
    case Quantization::kInt8Weights:
    case Quantization::kInt4Weights: {
      const int bits = policy.quantization == Quantization::kInt4Weights ? 4 : 8;
      if (!real) return std::nullopt;
      return ProductForm{.type = policy.compute, .weight_bits = trains ? 0.0 : double(bits)};
    }
    default: break;
  }
  return real ? std::optional(ProductForm{.type = policy.compute}) : std::nullopt;
}

bool has_tensor_cores(const GpuArchitecture& gpu, ElementType type) {
  switch (type) {
    case ElementType::kFloat16: return true;
    case ElementType::kBfloat16: return gpu.bfloat16;
    case ElementType::kInt8: return true;
    case ElementType::kFloat8E4M3: return gpu.float8 > 0;
    default: return false;
  }
}

ElementType half_type(const GpuArchitecture& gpu) {
  return gpu.bfloat16 ? ElementType::kBfloat16 : ElementType::kFloat16;
}

double product_us(const Product& product, int passes, const ProductForm& form, const GpuArchitecture& gpu) {
  const double x = double(product.m) * double(product.k) * double(product.count);
  const double w = double(product.n) * double(product.k) * double(product.count);
  const double y = double(product.m) * double(product.n) * double(product.count);
  const double bytes = bytes_of(form.type), weight_bytes = form.weight_bits > 0 ? form.weight_bits / 8 : bytes;
  const double work = std::max(product.operations() / rate(gpu, form.type) * 1e6,
                               memory_us(bytes * x + weight_bytes * w + result_bytes(form.type) * y, gpu));
  double us = passes * (work + kKernelUs);
  if (form.type == ElementType::kInt8) us += kernel_us(5 * y, gpu);
  if (form.dynamic) us += kernel_us(5 * x, gpu);
  if (form.type == ElementType::kFloat8E4M3)
    us += passes == 1 ? kernel_us(3 * x, gpu) : memory_us(4 * (x + w + y), gpu) + kFloat8TrainingUs;
  if (product.gathers) us += passes * kernel_us(bytes * x, gpu);
  return us;
}

double step_us(const Model& model, const StepRecord& step, const GpuArchitecture& gpu) {
  const StepWork work = step_work(model, step);
  return std::max(work.operations / (gpu.float32 * kReached.float32) * 1e6, memory_us(work.bytes, gpu)) + kKernelUs;
}

}  // namespace nacre::tools

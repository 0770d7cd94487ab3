// How a Device puts a product and the kernels around it into the stream.
#include <cstring>

#include "ports/cuda/cuda_port.h"

namespace nacre::cuda {
namespace {

// The image of a kernel around a product: that of the step, with other operands.
template <int kCount>
StepImage<kCount> image_of(const StepHead& step, const StepOperand (&operands)[kCount]) {
  StepImage<kCount> image;
  image.head = step;
  image.head.step.operand_count = kCount;
  std::memcpy(static_cast<void*>(image.operand), operands, sizeof operands);
  return image;
}

const StepOperand* operands_of(const StepHead& image) { return reinterpret_cast<const StepOperand*>(&image + 1); }

}  // namespace

// What launch_product will look for: in the middle of a capture a driver must not have to load a kernel.
bool Device::find_product_kernels(const KernelEntry& entry, const char* name, const StepHead& image) {
  ProductStep step;
  if (!product_of(entry, image, image.rows, &step)) return true;
  std::vector<std::string> wanted;
  if (step.columns != nullptr) wanted.push_back(step.columns);
  if (step.weights != nullptr) wanted.push_back(step.weights);
  if (step.sums) wanted.push_back(std::string(name) + "Sums");
  for (const std::string& kernel : wanted)
    if (product_kernel(kernel) == nullptr && !find_function(kernel.c_str(), &product_kernels_[kernel])) return false;
  return true;
}

Function Device::product_kernel(const std::string& name) const {
  const auto found = product_kernels_.find(name);
  return found == product_kernels_.end() ? nullptr : found->second;
}

// True with *is_product false: the step is none, or the library has no algorithm for it, and nothing was put there.
bool Device::launch_product(const KernelEntry& entry, const char* name, StepHead* image, int rows, bool* is_product) {
  ProductStep step;
  DescribedProduct described;
  *is_product = product_of(entry, *image, rows, &step) && products_.choose(step.product, &described);
  if (!*is_product) return true;
  return (step.columns == nullptr || launch_columns(step, *image)) &&
         succeeded(products_.enqueue(step.product, &described, stream_), "cublasLtMatmul") &&
         (step.weights == nullptr || launch_weight_sums(step, *image)) &&
         (!step.sums || launch_sums(step, name, image));
}

bool Device::launch_columns(const ProductStep& step, const StepHead& image) {
  const StepOperand* const of = operands_of(image);
  StepImage<3> made = image_of<3>(image, {of[0], of[1], of[image.step.operand_count - 1]});
  made.operand[2].data = step.columns_at;
  // Of a layer [rows, terms], of a gradient [terms, out].
  const bool of_layer = step.columns_of == 0;
  const uint64_t numbers = uint64_t(step.terms) * uint64_t(of_layer ? step.rows : step.out);
  return launch(product_kernel(step.columns), blocks_of(numbers), &made);
}

bool Device::launch_weight_sums(const ProductStep& step, const StepHead& image) {
  const StepOperand& w = operands_of(image)[1];
  StepImage<2> made = image_of<2>(image, {w, w});
  made.operand[1].data = step.weights_at;
  return launch(product_kernel(step.weights), blocks_of(uint64_t(step.out)), &made);
}

bool Device::launch_sums(const ProductStep& step, const char* name, StepHead* image) {
  auto* const operand = reinterpret_cast<StepOperand*>(image + 1);
  operand[0].data = step.sums_at;
  if (step.weights != nullptr) operand[1].data = step.weights_at;
  return launch(product_kernel(std::string(name) + "Sums"), image->blocks, image);
}

}  // namespace nacre::cuda

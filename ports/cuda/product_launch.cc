// Puts a product and the kernels around it into a Device's stream.
#include <cstring>

#include "ports/cuda/cuda_port.h"
#include "ports/cuda/product_kernels.h"
#include "ports/cuda/turned_codes.h"

namespace nacre::cuda {
namespace {

// Makes the image of a kernel around a product: the step's image with other operands.
template <int kCount>
StepImage<kCount> image_of(const StepHead& step, const StepOperand (&operands)[kCount]) {
  StepImage<kCount> image;
  image.head = step;
  image.head.step.operand_count = kCount;
  std::memcpy(static_cast<void*>(image.operand), operands, sizeof operands);
  return image;
}

const StepOperand* operands_of(const StepHead& image) { return reinterpret_cast<const StepOperand*>(&image + 1); }

// Sets the words of kRowWord and kRowsWord. Words that the step lacks are 0.
void add_row(int row, StepHead* image, int rows = 0) {
  image->words[kRowWord] = uint32_t(row), image->words[kRowsWord] = uint32_t(rows);
  image->step.word_count = kMostWords;
}

const char* copy_kernel(const CopyOfRows& copy) {
  if (copy.turned) return "kTurnedRowsI8";
  if (copy.adds) return "kAddedRowsF32";
  switch (copy.element_bytes) {
    case 8: return "kCopiedRowsF64";
    case 4: return "kCopiedRowsF32";
    case 2: return "kCopiedRowsF16";
    default: return "kCopiedRowsI8";
  }
}

std::vector<std::string> kernels_around(const ProductStep& step, const char* name) {
  std::vector<std::string> wanted;
  for (const char* kernel : {step.columns, step.turned, step.weights})
    if (kernel != nullptr) wanted.push_back(kernel);
  for (const CopyOfRows* copy : {&step.left, &step.right, &step.result})
    if (copy->to != nullptr) wanted.push_back(copy_kernel(*copy));
  if (step.sums) wanted.push_back(std::string(name) + "Sums");
  return wanted;
}

// Reads a factor from its transpose, if that was made already, and drops the copy.
void read_turned(std::span<const TurnedCodes> turned, CopyOfRows* copy, Product::Matrix* factor) {
  for (const TurnedCodes& codes : turned)
    if (copy->to != nullptr && copy->from == codes.codes && is_copy_of(codes, *copy)) *copy = {}, factor->at = codes.to;
}

}  // namespace

// Finds the kernels that launch_product will need, so that no driver has to load one in the middle of a capture.
bool Device::find_product_kernels(const KernelEntry& entry, const char* name, const StepHead& image) {
  ProductStep step;
  if (!product_of(entry, image, image.rows, &step)) return true;
  for (const std::string& kernel : kernels_around(step, name))
    if (product_kernel(kernel) == nullptr && !find_function(kernel.c_str(), &product_kernels_[kernel])) return false;
  return true;
}

Function Device::product_kernel(const std::string& name) const {
  const auto found = product_kernels_.find(name);
  return found == product_kernels_.end() ? nullptr : found->second;
}

// Sets *is_product to false and launches nothing if the step is no product, or has no algorithm or kernels.
bool Device::launch_product(const KernelEntry& entry, const char* name, StepHead* image, int rows,
                            std::span<const TurnedCodes> turned, bool* is_product) {
  ProductStep step;
  DescribedProduct described;
  *is_product = product_of(entry, *image, rows, &step);
  read_turned(turned, &step.right, &step.product.a);
  read_turned(turned, &step.left, &step.product.b);
  step.product.tf32 = tf32_;
  *is_product = *is_product && products_.choose(step.product, &described);
  // A run with fewer rows than bind saw may need other kernels.
  for (const std::string& kernel : *is_product ? kernels_around(step, name) : std::vector<std::string>())
    *is_product = *is_product && product_kernel(kernel) != nullptr;
  if (!*is_product) return true;
  return (step.columns == nullptr || launch_windows(step.columns, step, step.columns_at, *image)) &&
         (step.turned == nullptr || launch_windows(step.turned, step, step.weights_at, *image)) &&
         launch_copy(step.left, *image) && launch_copy(step.right, *image) &&
         succeeded(products_.enqueue(step.product, &described, stream_), "cublasLtMatmul") &&
         launch_copy(step.result, *image) && (step.weights == nullptr || launch_weight_sums(step, *image)) &&
         (!step.sums || launch_sums(step, name, image));
}

// Launches the kernel that makes columns, uses or turned weights.
bool Device::launch_windows(const char* kernel, const ProductStep& step, std::byte* to, const StepHead& image) {
  const StepOperand* const of = operands_of(image);
  StepImage<3> made = image_of<3>(image, {of[0], of[1], of[image.step.operand_count - 1]});
  made.operand[2].data = to;
  add_row(step.row_of_columns, &made.head, step.rows_of_columns);
  const uint64_t numbers = kernel == step.columns ? step.columns_numbers : step.turned_numbers;
  return launch(product_kernel(kernel), blocks_of(numbers), &made);
}

bool Device::launch_copy(const CopyOfRows& copy, const StepHead& image) {
  if (copy.to == nullptr) return true;
  const StepOperand& like = operands_of(image)[0];
  StepImage<2> made = image_of<2>(image, {like, like});
  made.operand[0].data = const_cast<void*>(copy.from), made.operand[1].data = copy.to;
  const int sizes[] = {copy.rows, copy.columns, copy.to_rows, copy.to_columns};
  for (int i = 0; i < 4; ++i) made.head.words[i] = uint32_t(sizes[i]);
  made.head.step.word_count = 4;
  return launch(product_kernel(copy_kernel(copy)), blocks_of(uint64_t(copy.to_rows) * uint64_t(copy.to_columns)),
                &made);
}

bool Device::launch_weight_sums(const ProductStep& step, const StepHead& image) {
  const StepOperand& w = operands_of(image)[1];
  StepImage<2> made = image_of<2>(image, {w, w});
  made.operand[1].data = step.weights_at;
  return launch(product_kernel(step.weights), blocks_of_teams(uint64_t(step.out)), &made);
}

bool Device::launch_sums(const ProductStep& step, const char* name, StepHead* image) {
  auto* const operand = reinterpret_cast<StepOperand*>(image + 1);
  operand[0].data = step.sums_at;
  if (step.weights != nullptr) operand[1].data = step.weights_at;
  add_row(step.row_of_sums, image);
  return launch(product_kernel(std::string(name) + "Sums"), image->blocks, image);
}

}  // namespace nacre::cuda

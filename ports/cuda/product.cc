#include "ports/cuda/product.h"

#include <algorithm>

namespace nacre::cuda {
namespace {

constexpr size_t kAligned = 16;  // bytes; fits() refuses operands, biases and batch strides that are no multiple of it

int bytes_of(LtType type) {
  switch (type) {
    case kLtF64: return 8;
    case kLtF32:
    case kLtI32: return 4;
    case kLtF16:
    case kLtBf16: return 2;
    default: return 1;
  }
}

// Returns the largest power of two, at most 256, that divides the addresses of all matrices of a batch.
uint32_t alignment_of(const Product& product, const Product::Matrix& matrix) {
  const int64_t stride = product.batch > 1 ? matrix.stride * bytes_of(matrix.type) : 0;
  const uintptr_t bits = reinterpret_cast<uintptr_t>(matrix.at) | uintptr_t(stride) | 256;
  return uint32_t(bits & (~bits + 1));
}

bool aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % kAligned == 0; }

// Return the scale type of alpha and beta, and the compute type of the sums.
LtEnum scale_of(LtType a) { return a == kLtI8 ? kLtI32 : a == kLtF64 ? kLtF64 : kLtF32; }
LtEnum compute_of(const Product& p) {
  if (p.tf32 && p.a.type == kLtF32) return kLtComputeTf32;
  return p.a.type == kLtI8 ? kLtCompute32I : p.a.type == kLtF64 ? kLtCompute64F : kLtCompute32F;
}

// alpha or beta, 0 or 1, in the scale type.
struct Factor {
  float real;
  int32_t integer;
  double wide;
  const void* of(LtType a) const {
    if (a == kLtF64) return &wide;
    return a == kLtI8 ? static_cast<const void*>(&integer) : &real;
  }
};
constexpr Factor kOne = {1, 1, 1}, kNone = {0, 0, 0};

}  // namespace

// For int8, m, k and steps are multiples of 4. For float8, both operands are contiguous along k in pieces of 16
// bytes, and so are the columns of D. 16-bit types take any size; a step that is no multiple of 16 bytes takes
// longer.
bool Product::fits() const {
  if (m < 1 || n < 1 || k < 1 || !aligned(a.at) || !aligned(b.at) || !aligned(d.at)) return false;
  if (bias != nullptr && !aligned(bias)) return false;
  for (const Matrix* matrix : {&a, &b, &d})
    if (batch > 1 && matrix->stride * bytes_of(matrix->type) % int64_t(kAligned) != 0) return false;
  if (a.type == kLtI8) return m % 4 == 0 && k % 4 == 0 && a.step % 4 == 0 && b.step % 4 == 0;
  if (a.type == kLtE4M3)
    return a.transposed && !b.transposed && k % 16 == 0 && a.step % 16 == 0 && b.step % 16 == 0 &&
           m * bytes_of(d.type) % 16 == 0;
  return true;
}

bool DescribedProduct::describe(const CublasLt& library, const Product& p, size_t workspace) {
  bool told = library.product_init(&product, sizeof product, compute_of(p), scale_of(p.a.type)) == kLtSuccess;
  const auto tell = [&](LtEnum name, const auto& value) {
    told = told && library.product_set(&product, name, &value, sizeof value) == kLtSuccess;
  };
  const int32_t transposed_a = p.a.transposed, transposed_b = p.b.transposed;  // cublasOperation_t: N 0, T 1
  tell(kLtTransposeA, transposed_a);
  tell(kLtTransposeB, transposed_b);
  tell(kLtEpilogue, LtEnum(p.bias != nullptr ? kLtEpilogueBias : kLtEpilogueNone));
  if (p.bias != nullptr) {
    tell(kLtBiasPointer, p.bias);
    tell(kLtBiasType, p.d.type);
  }
  if (p.a_scale != nullptr) tell(kLtScaleA, p.a_scale);
  if (p.b_scale != nullptr) tell(kLtScaleB, p.b_scale);
  const auto lay = [&](LtMatrix* matrix, const Product::Matrix& of, int rows, int columns) {
    const auto stands = [&](bool t) { return uint64_t(t ? columns : rows); };
    told = told && library.matrix_init(matrix, sizeof *matrix, of.type, stands(of.transposed), stands(!of.transposed),
                                       of.step) == kLtSuccess;
    if (p.batch == 1) return;
    const int32_t count = p.batch;
    told = told && library.matrix_set(matrix, kLtBatchCount, &count, sizeof count) == kLtSuccess &&
           library.matrix_set(matrix, kLtBatchStride, &of.stride, sizeof of.stride) == kLtSuccess;
  };
  lay(&a, p.a, p.m, p.k);
  lay(&b, p.b, p.k, p.n);
  lay(&d, p.d, p.m, p.n);
  told = told && library.preference_init(&preference, sizeof preference) == kLtSuccess &&
         library.preference_set(&preference, kLtMostWorkspace, &workspace, sizeof workspace) == kLtSuccess;
  // Adds parts of a sum in the type of the sum. In the type of D each part would be rounded.
  const uint32_t reductions = kLtReduceNone | kLtReduceComputeType;
  told = told && library.preference_set(&preference, kLtReductions, &reductions, sizeof reductions) == kLtSuccess;
  // By default the library assumes that addresses are multiples of 256.
  const Product::Matrix* const matrices[] = {&p.a, &p.b, &p.d, &p.d};
  for (LtEnum matrix = 0; matrix < 4; ++matrix) {
    const uint32_t alignment = alignment_of(p, *matrices[matrix]);
    told = told &&
           library.preference_set(&preference, kLtLeastAlignmentA + matrix, &alignment, sizeof alignment) == kLtSuccess;
  }
  return told;
}

bool Products::open(const CublasLt* library, void* workspace) {
  close();
  if (library == nullptr || workspace == nullptr || library->create(&handle_) != kLtSuccess) {
    handle_ = nullptr;
    return false;
  }
  library_ = library, workspace_ = workspace;
  return true;
}

void Products::close() {
  if (handle_ != nullptr) library_->destroy(handle_);
  handle_ = nullptr;
}

bool Products::choose(const Product& product, DescribedProduct* made) const {
  if (handle_ == nullptr || !product.fits() || !made->describe(*library_, product, kWorkspace)) return false;
  LtChoice choice = {};
  int found = 0;
  const LtStatus asked = library_->choose(handle_, &made->product, &made->a, &made->b, &made->d, &made->d,
                                          &made->preference, 1, &choice, &found);
  made->algorithm = choice.algorithm;
  return asked == kLtSuccess && found > 0 && choice.state == kLtSuccess;
}

LtStatus Products::enqueue(const Product& product, DescribedProduct* made, Stream stream) const {
  const LtType type = product.a.type;
  void* const d = const_cast<void*>(product.d.at);
  return library_->multiply(handle_, &made->product, kOne.of(type), product.a.at, &made->a, product.b.at, &made->b,
                            (product.adds ? kOne : kNone).of(type), d, &made->d, d, &made->d, &made->algorithm,
                            workspace_, kWorkspace, stream);
}

}  // namespace nacre::cuda

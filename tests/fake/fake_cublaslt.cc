#include "tests/fake/fake_cublaslt.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/numeric/small_float.h"
#include "ports/cuda/step_image.h"
#include "tests/fake/simulated_threads.h"

namespace nacre::fake {
namespace {

using cuda::LtEnum;
using cuda::LtStatus;
using cuda::LtType;

FakeCublasLt* current = nullptr;

// Contents of the opaque descriptors.
struct ProductFields {
  LtEnum compute, scale;
  int32_t transposed[2];
  LtEnum epilogue;
  LtType bias_type;
  const void* bias;
  const float* scale_of[2];
};
struct MatrixFields {
  LtEnum type;
  int32_t count;
  uint64_t rows, columns;
  int64_t step, stride;
};
static_assert(sizeof(ProductFields) <= sizeof(cuda::LtProduct) && sizeof(MatrixFields) <= sizeof(cuda::LtMatrix));

template <class Fields, class Opaque>
Fields& fields(Opaque* opaque) {
  return *reinterpret_cast<Fields*>(opaque->data);
}

// A product in the stream, as the image of a simulated kernel.
struct ProductImage {
  ProductFields product;
  MatrixFields a, b, d;
  const std::byte *at_a, *at_b;
  std::byte* at_d;
  bool adds;
};

size_t bytes_of(LtEnum type) {
  switch (type) {
    case cuda::kLtF64: return 8;
    case cuda::kLtF32:
    case cuda::kLtI32: return 4;
    case cuda::kLtF16:
    case cuda::kLtBf16: return 2;
    default: return 1;
  }
}

float real_at(const std::byte* base, LtEnum type, int64_t i) {
  switch (type) {
    case cuda::kLtF32: return reinterpret_cast<const float*>(base)[i];
    case cuda::kLtF16: return float(reinterpret_cast<const Float16*>(base)[i]);
    case cuda::kLtBf16: return float(reinterpret_cast<const Bfloat16*>(base)[i]);
    case cuda::kLtE5M2: return float(reinterpret_cast<const Float8E5M2*>(base)[i]);
    default: return float(reinterpret_cast<const Float8E4M3*>(base)[i]);
  }
}

void put_real(std::byte* base, LtEnum type, int64_t i, float v) {
  switch (type) {
    case cuda::kLtF32: reinterpret_cast<float*>(base)[i] = v; break;
    case cuda::kLtF16: reinterpret_cast<Float16*>(base)[i] = Float16(v); break;
    default: reinterpret_cast<Bfloat16*>(base)[i] = Bfloat16(v);
  }
}

// Rounds to the 11 bits of a TF32 significand, half to even.
float as_tf32(float v) {
  auto bits = std::bit_cast<uint32_t>(v);
  if (!std::isfinite(v)) return v;
  bits += 0xFFF + (bits >> 13 & 1);
  return std::bit_cast<float>(bits & ~0x1FFFu);
}

// Computes d_ij = sum_p a'_ip b'_pj for one matrix of the batch, at these bytes.
void multiply_one(const ProductImage& p, const std::byte* a, const std::byte* b, std::byte* d) {
  const bool ta = p.product.transposed[0] != 0, tb = p.product.transposed[1] != 0;
  const auto terms = int64_t(ta ? p.a.rows : p.a.columns);
  for (int64_t j = 0; j < int64_t(p.d.columns); ++j)
    for (int64_t i = 0; i < int64_t(p.d.rows); ++i) {
      const auto at_a = [&](int64_t k) { return ta ? i * p.a.step + k : k * p.a.step + i; };
      const auto at_b = [&](int64_t k) { return tb ? k * p.b.step + j : j * p.b.step + k; };
      const int64_t at = j * p.d.step + i;
      if (p.product.compute == cuda::kLtCompute32I) {
        auto& to = reinterpret_cast<uint32_t*>(d)[at];
        uint32_t sum = p.adds ? to : 0;
        for (int64_t k = 0; k < terms; ++k)
          sum += uint32_t(reinterpret_cast<const int8_t*>(a)[at_a(k)]) *
                 uint32_t(reinterpret_cast<const int8_t*>(b)[at_b(k)]);
        to = sum;
        continue;
      }
      if (p.product.compute == cuda::kLtCompute64F) {
        const auto of = [](const std::byte* base, int64_t k) { return reinterpret_cast<const double*>(base)[k]; };
        double sum = p.adds ? of(d, at) : 0;
        for (int64_t k = 0; k < terms; ++k) sum += of(a, at_a(k)) * of(b, at_b(k));
        reinterpret_cast<double*>(d)[at] = sum;
        continue;
      }
      const float c = p.adds ? real_at(d, p.d.type, at) : 0.0f;
      const bool scaled = p.product.scale_of[0] != nullptr;
      float sum = scaled ? 0.0f : c;
      const auto factor = [&](float v) { return p.product.compute == cuda::kLtComputeTf32 ? as_tf32(v) : v; };
      for (int64_t k = 0; k < terms; ++k)
        sum += factor(real_at(a, p.a.type, at_a(k))) * factor(real_at(b, p.b.type, at_b(k)));
      if (scaled) sum *= *p.product.scale_of[0] * *p.product.scale_of[1];
      if (scaled && p.adds) sum = c + sum;
      if (p.product.epilogue == cuda::kLtEpilogueBias)
        sum += real_at(static_cast<const std::byte*>(p.product.bias), p.product.bias_type, i);
      put_real(d, p.d.type, at, sum);
    }
}

void multiply(const void* image) {
  if (simulated_thread.index != 0) return;
  const auto& p = *static_cast<const ProductImage*>(image);
  for (int64_t i = 0; i < p.d.count; ++i)
    multiply_one(p, p.at_a + i * p.a.stride * int64_t(bytes_of(p.a.type)),
                 p.at_b + i * p.b.stride * int64_t(bytes_of(p.b.type)),
                 p.at_d + i * p.d.stride * int64_t(bytes_of(p.d.type)));
}
constexpr cuda::SimulatedKernel kMultiply = {&multiply, sizeof(ProductImage)};
constexpr LoadedFunction kMultiplyFunction = {&kMultiply, false};

// Returns kLtSuccess if the matrices fit one product that the library accepts, else the library's status.
LtStatus judge(const ProductFields& product, const MatrixFields& a, const MatrixFields& b, const MatrixFields& d) {
  const bool ta = product.transposed[0] != 0, tb = product.transposed[1] != 0;
  const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = tb ? b.rows : b.columns;
  const auto is_float8 = [](LtEnum type) { return type == cuda::kLtE4M3 || type == cuda::kLtE5M2; };
  const bool float8 = is_float8(a.type) && is_float8(b.type) && (a.type == cuda::kLtE4M3 || b.type == cuda::kLtE4M3);
  if ((tb ? b.columns : b.rows) != k || d.rows != m || d.columns != n) return cuda::kLtInvalidValue;
  if (!float8 && a.type != b.type) return cuda::kLtInvalidValue;
  const bool scales[] = {product.scale_of[0] != nullptr, product.scale_of[1] != nullptr};
  if (scales[0] != scales[1] || (scales[0] && !float8)) return cuda::kLtNotSupported;
  if (a.count != d.count || b.count != d.count) return cuda::kLtInvalidValue;
  for (const MatrixFields* matrix : {&a, &b, &d}) {
    if (matrix->step < int64_t(matrix->rows)) return cuda::kLtInvalidValue;
    if (matrix->count > 1 && matrix->stride * int64_t(bytes_of(matrix->type)) % 16 != 0) return cuda::kLtNotSupported;
  }
  const bool integer = a.type == cuda::kLtI8, wide = a.type == cuda::kLtF64;
  const bool tf32 = product.compute == cuda::kLtComputeTf32 && a.type == cuda::kLtF32;
  const LtEnum compute = integer ? cuda::kLtCompute32I : wide ? cuda::kLtCompute64F : cuda::kLtCompute32F;
  if ((!tf32 && product.compute != compute) || product.scale != LtEnum(integer ? cuda::kLtI32
                                                                       : wide  ? cuda::kLtF64
                                                                               : cuda::kLtF32))
    return cuda::kLtInvalidValue;
  if (wide && (d.type != cuda::kLtF64 || product.epilogue != cuda::kLtEpilogueNone)) return cuda::kLtNotSupported;
  if (integer && (d.type != cuda::kLtI32 || m % 4 != 0 || k % 4 != 0 || a.step % 4 != 0 || b.step % 4 != 0))
    return cuda::kLtNotSupported;
  if (float8 && (!ta || tb || k % 16 != 0 || m * bytes_of(d.type) % 16 != 0)) return cuda::kLtNotSupported;
  const bool biased = product.epilogue == cuda::kLtEpilogueBias;
  if (biased && (product.bias == nullptr || product.bias_type != LtType(d.type))) return cuda::kLtNotSupported;
  return cuda::kLtSuccess;
}

bool aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

}  // namespace

// The functions of a CublasLt, under their symbols.
struct LtFunctions {
  static bool enter(const char* symbol, LtStatus* status) {
    ++current->calls_[symbol];
    if (current->fault_ != symbol || current->until_-- > 0) return true;
    current->fault_.clear();
    *status = current->status_;
    return false;
  }

  static LtStatus create(cuda::LtHandle* handle) {
    ++current->held_;
    *handle = reinterpret_cast<cuda::LtHandle>(current);
    return cuda::kLtSuccess;
  }
  static LtStatus destroy(cuda::LtHandle) { return --current->held_, cuda::kLtSuccess; }

  static LtStatus product_init(cuda::LtProduct* product, size_t, LtEnum compute, LtEnum scale) {
    *product = {};
    fields<ProductFields>(product) = {compute,           scale, {0, 0}, cuda::kLtEpilogueNone, cuda::kLtF32, nullptr,
                                      {nullptr, nullptr}};
    return cuda::kLtSuccess;
  }
  static LtStatus product_set(cuda::LtProduct* product, LtEnum name, const void* value, size_t size) {
    auto& f = fields<ProductFields>(product);
    const auto take = [&](void* to, size_t bytes) {
      return size == bytes ? (std::memcpy(to, value, bytes), cuda::kLtSuccess) : cuda::kLtInvalidValue;
    };
    switch (name) {
      case cuda::kLtTransposeA: return take(&f.transposed[0], 4);
      case cuda::kLtTransposeB: return take(&f.transposed[1], 4);
      case cuda::kLtEpilogue: return take(&f.epilogue, 4);
      case cuda::kLtBiasPointer: return take(&f.bias, sizeof f.bias);
      case cuda::kLtBiasType: return take(&f.bias_type, 4);
      case cuda::kLtScaleA: return take(&f.scale_of[0], sizeof f.scale_of[0]);
      case cuda::kLtScaleB: return take(&f.scale_of[1], sizeof f.scale_of[1]);
      default: return cuda::kLtInvalidValue;
    }
  }
  static LtStatus matrix_init(cuda::LtMatrix* matrix, size_t, LtEnum type, uint64_t rows, uint64_t columns,
                              int64_t step) {
    *matrix = {};
    fields<MatrixFields>(matrix) = {type, 1, rows, columns, step, 0};
    return cuda::kLtSuccess;
  }
  static LtStatus matrix_set(cuda::LtMatrix* matrix, LtEnum name, const void* value, size_t size) {
    auto& f = fields<MatrixFields>(matrix);
    if (name == cuda::kLtBatchCount && size == 4) std::memcpy(&f.count, value, size);
    else if (name == cuda::kLtBatchStride && size == 8) std::memcpy(&f.stride, value, size);
    else return cuda::kLtInvalidValue;
    return cuda::kLtSuccess;
  }
  // The alignments of A, B, C and D are 256 unless a preference sets less. An algorithm keeps them.
  static LtStatus preference_init(cuda::LtPreference* preference, size_t) {
    return *preference = {{256, 256, 256, 256}}, cuda::kLtSuccess;
  }
  static LtStatus preference_set(cuda::LtPreference* preference, LtEnum name, const void* value, size_t size) {
    if (name == cuda::kLtMostWorkspace && size == sizeof(size_t)) return cuda::kLtSuccess;
    if (name == cuda::kLtReductions && size == sizeof(uint32_t)) return cuda::kLtSuccess;
    const LtEnum matrix = name - cuda::kLtLeastAlignmentA;
    if (matrix >= 4 || size != sizeof(uint32_t)) return cuda::kLtInvalidValue;
    preference->data[matrix] = *static_cast<const uint32_t*>(value);
    return cuda::kLtSuccess;
  }

  static LtStatus choose(cuda::LtHandle, cuda::LtProduct* product, cuda::LtMatrix* a, cuda::LtMatrix* b,
                         cuda::LtMatrix*, cuda::LtMatrix* d, cuda::LtPreference* preference, int most,
                         cuda::LtChoice* choices, int* found) {
    *found = 0;
    const LtStatus judged = judge(fields<ProductFields>(product), fields<MatrixFields>(a), fields<MatrixFields>(b),
                                  fields<MatrixFields>(d));
    *found = judged == cuda::kLtSuccess && most > 0 ? 1 : 0;
    if (*found == 0) return judged;
    choices[0] = {};
    std::copy_n(preference->data, 4, choices[0].algorithm.data);
    return judged;
  }

  static LtStatus multiply(cuda::LtHandle, cuda::LtProduct* product, const void* alpha, const void* a,
                           cuda::LtMatrix* a_is, const void* b, cuda::LtMatrix* b_is, const void* beta, const void* c,
                           cuda::LtMatrix*, void* d, cuda::LtMatrix* d_is, const cuda::LtAlgorithm* algorithm, void*,
                           size_t, cuda::Stream stream) {
    ProductImage image = {fields<ProductFields>(product),   fields<MatrixFields>(a_is),
                          fields<MatrixFields>(b_is),       fields<MatrixFields>(d_is),
                          static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                          static_cast<std::byte*>(d),       false};
    const LtStatus judged = judge(image.product, image.a, image.b, image.d);
    if (judged != cuda::kLtSuccess) return judged;
    if (!aligned(a) || !aligned(b) || !aligned(d) || c != d) return cuda::kLtNotSupported;
    const void* const matrices[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i)
      if (reinterpret_cast<uintptr_t>(matrices[i]) % algorithm->data[i] != 0) return cuda::kLtNotSupported;
    const auto factor = [&](const void* at) {
      switch (image.product.scale) {
        case cuda::kLtI32: return float(*static_cast<const int32_t*>(at));
        case cuda::kLtF64: return float(*static_cast<const double*>(at));
        default: return *static_cast<const float*>(at);
      }
    };
    if (factor(alpha) != 1 || (factor(beta) != 0 && factor(beta) != 1)) return cuda::kLtInvalidValue;
    image.adds = factor(beta) == 1;
    void* parameters[] = {&image};
    const auto function = reinterpret_cast<cuda::Function>(const_cast<LoadedFunction*>(&kMultiplyFunction));
    const cuda::Result result =
        current->driver_.driver().launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    return result == cuda::kSuccess ? cuda::kLtSuccess : cuda::kLtInvalidValue;
  }
};

FakeCublasLt::FakeCublasLt(const FakeDriver& driver) : driver_(driver) {
  if (current != nullptr) std::abort();
  current = this;
#define NACRE_CUBLASLT_FUNCTION(name, symbol, ...)                                       \
  library_.name = [](auto... values) {                                                   \
    LtStatus status = 0;                                                                 \
    return LtFunctions::enter(#symbol, &status) ? LtFunctions::name(values...) : status; \
  };
  NACRE_CUBLASLT_FUNCTIONS(NACRE_CUBLASLT_FUNCTION)
#undef NACRE_CUBLASLT_FUNCTION
}

FakeCublasLt::~FakeCublasLt() { current = nullptr; }

void FakeCublasLt::fail(const std::string& symbol, uint64_t nth, LtStatus status) {
  fault_ = symbol, until_ = nth, status_ = status;
}

uint64_t FakeCublasLt::calls(const std::string& symbol) const {
  const auto found = calls_.find(symbol);
  return found == calls_.end() ? 0 : found->second;
}

}  // namespace nacre::fake

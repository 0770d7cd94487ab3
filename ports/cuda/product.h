// Products of matrices on Tensor Cores, by cuBLASLt.
//
//   D = epilogue(A' B' + C)       A' [m, k]   B' [k, n]   D [m, n]   in columns, as in BLAS; C is D where it adds, or 0
//
// A matrix of Nacre in rows, X [r, c], is in columns X^T [c, r] with a step of c: so Y = X W^T, x [rows, in] and
// w [out, in], is Y^T = W X^T, m = out, n = rows, k = in, A' the transpose of what lies there. Both operands are then
// contiguous along k, which float8 needs.
//
// float8 is E4M3, or E5M2 in B'. Where A' and B' have a scale of a float32 each, on the device, the sums are multiplied
// by the product of both before C is added.
//
// Sums are float32 of float32, 16-bit and float8 numbers, float64 of float64, and int32 of int8. Where the caller asks
// for it, float32 is multiplied as TF32, of whose significand 11 bits remain: a relative error of up to 2^-10 in each
// product. A bias is added to them before D is rounded. Activations are none of the library's: its relu makes 0 of NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ports/cuda/cublaslt.h"

namespace nacre::cuda {

struct Product {
  struct Matrix {
    const void* at;  // on the device
    LtType type;
    bool transposed;  // A' or B' is the transpose of what lies there
    int64_t step;     // elements from column to column
    int64_t stride;   // elements from one of `batch` to the next; 0: all are this one
  };
  int m, n, k, batch;
  Matrix a, b, d;
  bool adds;                      // C is D
  bool tf32;                      // float32 may be multiplied as TF32
  const void* bias;               // [m] of D's type, added to the sums; or null
  const void *a_scale, *b_scale;  // of float8; or null

  // Returns whether addresses, sizes and steps are as the library demands; where not, it is not asked.
  bool fits() const;
  uint64_t work() const { return uint64_t(m) * uint64_t(n) * uint64_t(k) * uint64_t(batch); }
};

// A product as the library is told it.
struct DescribedProduct {
  LtProduct product;
  LtMatrix a, b, d;
  LtPreference preference;
  LtAlgorithm algorithm;

  // False: the library refused a field.
  bool describe(const CublasLt& library, const Product& product, size_t workspace);
};

// The library, open on the current context.
class Products {
 public:
  static constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA recommends from Hopper on

  // False: it does not open here. `workspace`: of kWorkspace bytes, on the device.
  bool open(const CublasLt* library, void* workspace);
  void close();
  bool is_open() const { return handle_ != nullptr; }

  // False: the library has no algorithm for it.
  bool choose(const Product& product, DescribedProduct* made) const;
  // Puts it into the stream.
  LtStatus enqueue(const Product& product, DescribedProduct* made, Stream stream) const;

 private:
  const CublasLt* library_ = nullptr;
  LtHandle handle_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace nacre::cuda

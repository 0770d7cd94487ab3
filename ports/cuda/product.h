// Products of matrices on Tensor Cores, made by cuBLASLt.
//
//   D = epilogue(A' B' + C)       A' [m, k]   B' [k, n]   D [m, n]   column by column, as in BLAS; C is D or 0 (`adds`)
//
// A matrix X [r, c] of Nacre lies row by row. These bytes are the matrix X^T [c, r] column by column, with a step
// of c. So Y = X W^T, with x [rows, in] and w [out, in], is computed as Y^T = W X^T: m = out, n = rows, k = in, and
// A' is the transpose of the matrix that lies there. Both operands are then contiguous along k, which float8 needs.
//
// float8 is E4M3; B' may be E5M2. If A' and B' have a float32 scale each, on the device, the sums are multiplied by
// the product of both scales before C is added.
//
// Sums are float32 for float32, 16-bit and float8 numbers, float64 for float64, and int32 for int8. With `tf32`,
// float32 is multiplied as TF32, which keeps 11 bits of the significand: a relative error of up to 2^-10 in each
// product. A bias is added to the sums before D is rounded. The library computes no activation here, because its relu
// makes 0 of NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ports/cuda/cublaslt.h"

namespace nacre::cuda {

struct Product {
  struct Matrix {
    const void* at;  // address on the device
    LtType type;
    bool transposed;  // whether A' or B' is the transpose of the matrix that lies there
    int64_t step;     // elements from column to column
    int64_t stride;   // elements between matrices of `batch`; 0: all are the same one
  };
  int m, n, k, batch;
  Matrix a, b, d;
  bool adds;                      // whether C is D
  bool tf32;                      // whether float32 may be multiplied as TF32
  const void* bias;               // [m] of D's type, added to the sums; or null
  const void *a_scale, *b_scale;  // scales of float8 operands; or null

  // Returns whether the library takes these addresses, sizes and steps. If not, the caller does not call the library.
  bool fits() const;
  uint64_t work() const { return uint64_t(m) * uint64_t(n) * uint64_t(k) * uint64_t(batch); }
};

// The descriptors of a product for the library.
struct DescribedProduct {
  LtProduct product;
  LtMatrix a, b, d;
  LtPreference preference;
  LtAlgorithm algorithm;

  // Returns false if the library refused a field.
  bool describe(const CublasLt& library, const Product& product, size_t workspace);
};

// The library, open on the current context.
class Products {
 public:
  static constexpr size_t kWorkspace = size_t{32} << 20;  // NVIDIA recommends this size for Hopper and newer

  // Returns false if the library does not open here. `workspace` has kWorkspace bytes on the device.
  bool open(const CublasLt* library, void* workspace);
  void close();
  bool is_open() const { return handle_ != nullptr; }

  // Describes the product and chooses an algorithm. Returns false if the library has no algorithm for the product.
  bool choose(const Product& product, DescribedProduct* made) const;
  // Puts the product into the stream.
  LtStatus enqueue(const Product& product, DescribedProduct* made, Stream stream) const;

 private:
  const CublasLt* library_ = nullptr;
  LtHandle handle_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace nacre::cuda

// A cuBLASLt for tests, without a GPU, over the simulated driver: the port calls it as it calls NVIDIA's.
//
//   - Descriptors hold what they are told, and a product follows from them alone, in columns as in BLAS: a field that
//     the port sets wrongly gives other numbers.
//   - A product sums its terms one after another, in the type that the library sums in, and rounds once: the bytes of
//     the reference, whose order this is.
//   - It refuses, among others, what CUDA 13's library refuses: float8 not contiguous along k or not in whole 16 bytes,
//     int8 not in multiples of 4, addresses and batch strides not at multiples of 16.
//   - A product is put into the stream, or into the graph that is captured, as a kernel of one thread.
//   - Every function counts its calls, and fails on demand.
//
// There may be one at a time, while there is a FakeDriver.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ports/cuda/cublaslt.h"
#include "tests/fake/fake_driver.h"

namespace nacre::fake {

class FakeCublasLt {
 public:
  explicit FakeCublasLt(const FakeDriver& driver);
  ~FakeCublasLt();
  FakeCublasLt(const FakeCublasLt&) = delete;
  FakeCublasLt& operator=(const FakeCublasLt&) = delete;

  const cuda::CublasLt& library() const { return library_; }

  // The n-th call of the function with this symbol ("cublasLtMatmul"), counted from 0, fails.
  void fail(const std::string& symbol, uint64_t nth, cuda::LtStatus status = cuda::kLtInvalidValue);
  uint64_t calls(const std::string& symbol) const;
  uint64_t held() const { return held_; }  // handles that were created and not destroyed

 private:
  friend struct LtFunctions;

  const FakeDriver& driver_;
  cuda::CublasLt library_ = {};
  std::map<std::string, uint64_t> calls_;
  std::string fault_;
  uint64_t until_ = 0;
  cuda::LtStatus status_ = 0;
  uint64_t held_ = 0;
};

}  // namespace nacre::fake

// A driver that passes every call on to another driver and counts the calls. It shows what a run asks of the driver.
//
// Only one exists at a time, because a driver's functions take no object.
#pragma once

#include <cstdint>

#include "ports/cuda/driver.h"

namespace nacre::test {

struct DriverCalls {
#define NACRE_CUDA_FUNCTION(name, symbol, ...) uint64_t name = 0;
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION

  uint64_t all() const;
  DriverCalls operator-(const DriverCalls& before) const;
};

struct LaunchedGraph {
  cuda::GraphExec graph = nullptr;
  cuda::Stream stream = nullptr;
};

class CountedDriver {
 public:
  explicit CountedDriver(const cuda::Driver& driver);
  ~CountedDriver();
  CountedDriver(const CountedDriver&) = delete;
  CountedDriver& operator=(const CountedDriver&) = delete;

  const cuda::Driver& driver() const { return counted_; }
  const DriverCalls& calls() const { return calls_; }
  const LaunchedGraph& last_graph() const { return last_; }

 private:
  struct Functions;

  const cuda::Driver& driver_;
  cuda::Driver counted_ = {};
  DriverCalls calls_;
  LaunchedGraph last_;
};

}  // namespace nacre::test

#include "tests/claims/counted_driver.h"

#include <cstdlib>

namespace nacre::test {
namespace {

CountedDriver* current = nullptr;

}  // namespace

uint64_t DriverCalls::all() const {
  uint64_t sum = 0;
#define NACRE_CUDA_FUNCTION(name, symbol, ...) sum += name;
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
  return sum;
}

DriverCalls DriverCalls::operator-(const DriverCalls& before) const {
  DriverCalls since = *this;
#define NACRE_CUDA_FUNCTION(name, symbol, ...) since.name -= before.name;
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
  return since;
}

struct CountedDriver::Functions {
  static void fill(cuda::Driver* counted) {
#define NACRE_CUDA_FUNCTION(name, symbol, ...) \
  counted->name = [](auto... values) {         \
    ++current->calls_.name;                    \
    return current->driver_.name(values...);   \
  };
    NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
    counted->graph_launch = [](cuda::GraphExec graph, cuda::Stream stream) {
      ++current->calls_.graph_launch;
      current->last_ = {graph, stream};
      return current->driver_.graph_launch(graph, stream);
    };
  }
};

CountedDriver::CountedDriver(const cuda::Driver& driver) : driver_(driver) {
  if (current != nullptr) std::abort();
  current = this;
  Functions::fill(&counted_);
}

CountedDriver::~CountedDriver() { current = nullptr; }

}  // namespace nacre::test

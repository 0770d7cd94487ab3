// Prints which GPU the port would use, or why there is none. Exit code 0, or 3 if there is none.
//
//   cuda_device [NUMBER OF THE GPU]
#include <cstdio>
#include <cstdlib>

#include "ports/cuda/cuda_port.h"

int main(int count, char** arguments) {
  using nacre::cuda::Device;
  Device device;
  const int ordinal = count > 1 ? std::atoi(arguments[1]) : 0;
  std::printf("%zu kernels in %zu modules\n", Device::kernel_count(), nacre::cuda::modules().size());
  const nacre::cuda::Driver* const driver = nacre::cuda::load_driver();
  if (!device.open(driver, nacre::cuda::modules(), ordinal, nacre::cuda::load_cublaslt(driver))) {
    std::printf("%s\n", device.sentence());
    return 3;
  }
  std::printf("%s, %s\n", device.name(), device.has_products() ? "products by cuBLASLt" : "without cuBLASLt");
  return 0;
}

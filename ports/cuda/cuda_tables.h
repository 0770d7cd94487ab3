// Tables that exist once for all Devices: the port's entries, and the kernels that put their steps off.
#pragma once

#include <vector>

#include "ports/cuda/cuda_port.h"

namespace nacre::cuda {

// The entries of the reference and of training, whose kernels put a step off.
struct Device::Tables {
  std::vector<const char*> names;
  std::vector<KernelEntry> entries;
  std::vector<Kernel> kernels;
  std::vector<Preparation> preparations;      // by the operands of an image
  std::vector<bool> runs_many;                // many steps may share a launch (step_groups.h)
  std::vector<ScratchOf> own_scratch;         // of the kernels; null: none
  std::vector<const DeviceThreads*> threads;  // of their ops
  std::vector<const KernelEntry*> list;
  KernelSet set;
  // Copies of the entries, with the scratch of products.
  std::vector<KernelEntry> with_products;
  std::vector<const KernelEntry*> list_with_products;
  KernelSet set_with_products;

  Tables();
};

}  // namespace nacre::cuda

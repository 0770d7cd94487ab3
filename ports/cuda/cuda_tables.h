// Tables that exist once for all Devices: the port's entries and their properties.
#pragma once

#include <vector>

#include "ports/cuda/cuda_port.h"

namespace nacre::cuda {

// The entries of the reference and of training. Their kernels defer a step (Device::enqueue).
struct Device::Tables {
  std::vector<const char*> names;
  std::vector<KernelEntry> entries;
  std::vector<Kernel> kernels;
  std::vector<Preparation> preparations;      // indexed by the number of operands in the image
  std::vector<bool> runs_many;                // whether many steps may share a launch (step_groups.h)
  std::vector<ScratchOf> own_scratch;         // scratch of the kernels; null if a kernel needs none
  std::vector<const DeviceThreads*> threads;  // threads that the entries' ops use
  std::vector<const KernelEntry*> list;
  KernelSet set;
  // Copies of the entries that also ask for the scratch of products.
  std::vector<KernelEntry> with_products;
  std::vector<const KernelEntry*> list_with_products;
  KernelSet set_with_products;

  Tables();
};

}  // namespace nacre::cuda

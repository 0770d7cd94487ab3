// nacre kernels: the list of kernels that a model needs, as a header for firmware, which then links no others.
#pragma once

#include <string>

namespace nacre::tools {

struct KernelsOptions {
  std::string model;
  std::string header;  // "": standard output
};

void kernels(const KernelsOptions& options);

}  // namespace nacre::tools

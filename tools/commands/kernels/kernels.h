// nacre kernels: lists the sets of kernels; or writes the kernels that a model needs as a header for firmware, which
// then links no others.
#pragma once

#include <string>

namespace nacre::tools {

struct KernelsOptions {
  std::string model;   // "": list the sets
  std::string header;  // "": standard output
  std::string set;     // the set whose kernels are listed
  bool json = false;
};

void kernels(const KernelsOptions& options);

}  // namespace nacre::tools

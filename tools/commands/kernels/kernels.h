// nacre kernels: the sets of kernels there are; or those that a model needs, as a header for firmware, which then links
// no others.
#pragma once

#include <string>

namespace nacre::tools {

struct KernelsOptions {
  std::string model;   // "": the sets are listed
  std::string header;  // "": standard output
  std::string set;     // whose kernels are listed
  bool json = false;
};

void kernels(const KernelsOptions& options);

}  // namespace nacre::tools

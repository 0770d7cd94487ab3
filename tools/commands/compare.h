// nacre compare: two models on the same data; how far each layer of the second is from the first.
#pragma once

#include <string>

namespace nacre::tools {

struct CompareOptions {
  std::string a, b;                // model files; A is the reference
  std::string data;                // .npz with an array per input of A, or .npy for the only one
  std::string csv;                 // file to write; "": none
  std::string target;              // of several programs, the ones for this target
  std::string sort = "execution";  // or "error": largest relative error first
  bool json = false;
};

void compare(const CompareOptions& options);

}  // namespace nacre::tools

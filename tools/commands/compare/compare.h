// nacre compare: two models on the same data; how far each layer of the second is from the first.
#pragma once

#include <string>

#include "tools/model/running.h"

namespace nacre::tools {

struct CompareOptions {
  std::string a, b;             // model files; A is the reference
  std::string data;             // .npz with an array per input of A, or .npy for the only one
  std::string csv;              // file to write, "-": standard output; "": none
  std::string target;           // of several programs, the ones for this target
  std::string sort = "damage";  // worst first; or "execution", or "error": largest relative error first
  Running running;
  bool cast_inputs = false;  // change the type of numbers, where none changes by it
  bool json = false;
};

void compare(const CompareOptions& options);

}  // namespace nacre::tools

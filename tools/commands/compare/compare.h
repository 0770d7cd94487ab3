// nacre compare: runs two models on the same data and measures how far each layer of the second is from the first.
#pragma once

#include <string>

#include "tools/model/running.h"

namespace nacre::tools {

struct CompareOptions {
  std::string a, b;             // model files; A is the reference
  std::string data;             // .npz with an array per input of A, or .npy for the only one
  std::string indices;          // .npy of the samples to take; "": every sample
  std::string csv;              // file to write; "-": standard output; "": none
  std::string target;           // the target of the programs, if there are several
  std::string sort = "damage";  // lowest SQNR first; or "execution"; or "error": largest relative error first
  Running running;
  bool cast_inputs = false;  // convert numbers to the input's type, if no number changes
  bool json = false;
};

void compare(const CompareOptions& options);

}  // namespace nacre::tools

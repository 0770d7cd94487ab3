// nacre size: tells how many bytes running a model takes, without the stack, on this machine or another.
#pragma once

#include <string>

namespace nacre::tools {

struct SizeOptions {
  std::string model;
  std::string target = "host";  // a name of machines.h
  bool train = false;           // the memory of training, by purpose
  bool json = false;
};

void size(const SizeOptions& options);

}  // namespace nacre::tools

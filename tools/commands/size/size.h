// nacre size: every byte that running a model takes, on this machine or another.
#pragma once

#include <string>

namespace nacre::tools {

struct SizeOptions {
  std::string model;
  std::string target = "host";  // of machines.h
  bool train = false;           // what training takes, by what it is for
  bool json = false;
};

void size(const SizeOptions& options);

}  // namespace nacre::tools

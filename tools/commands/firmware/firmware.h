// nacre firmware: writes a model as a static program in C++. Its kernels are bound already, so of the engine an image
// links only those kernels and what calls them. With --train, it also writes the programs that train the model.
#pragma once

#include <cstdint>
#include <string>

#include "tools/files/command_files.h"

namespace nacre::tools {

struct FirmwareOptions {
  std::string model, directory;
  std::string target;  // a name of machines.h; "": the model's only microcontroller, else arm/m4
  std::string name = "model";
  bool train = false;
  uint32_t golden = 2;  // pairs that the self-test runs
  bool json = false;
};

void firmware(const FirmwareOptions& options, const CommandFiles& files);

}  // namespace nacre::tools

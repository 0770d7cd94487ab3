// nacre firmware: a model as a static program: C++ that is bound already, for an image that links its kernels and
// nothing else of the engine; of a model that trains, with --train, those of training too.
#pragma once

#include <cstdint>
#include <string>

#include "tools/files/command_files.h"

namespace nacre::tools {

struct FirmwareOptions {
  std::string model, directory;
  std::string target = "arm/m4";  // of machines.h
  std::string name = "model";
  bool train = false;
  uint32_t golden = 2;  // pairs that the self-test runs
  bool json = false;
};

void firmware(const FirmwareOptions& options, const CommandFiles& files);

}  // namespace nacre::tools

// Writes learned numbers back into a copy of the file that the network came from, for users who continue elsewhere. The
// numbers keep their places and the file's types. Other bytes stay, except an archive's checksums. External data of an
// ONNX file moves into the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/compile/deployed.h"

namespace nacre::tools {

struct WriteBackOptions {
  std::string network;                        // a .keras, .h5 or .onnx file
  ImportOptions importing = {.train = true};  // the training's options
};

struct WrittenBack {
  Deployed counts;                  // constants and adapters; `bytes` holds the new file
  size_t tensors = 0, numbers = 0;  // learned tensors and numbers in the file
};

// Returns the bytes of the file with the trained `state` of `training` in it. Throws if the file does not store a
// learned constant as plain numbers of its own, but as codes or as a product. Throws too if it stores one number for
// several layers that learned different numbers.
WrittenBack write_back(const WriteBackOptions& options, const LoadedModel& training, std::span<const std::byte> state);

}  // namespace nacre::tools

// Writes learned numbers back into the file that the network came from, for users who continue with the network
// elsewhere. The numbers keep their places and the file's types, and every other byte stays. External data of an ONNX
// file moves into the file.
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

// Writes the trained `state` of `training` into the file. Throws if the file does not store a learned constant as
// plain numbers of its own (codes, a product, in pieces or beside the file). Throws too if it stores one number twice
// that was learned apart.
WrittenBack write_back(const WriteBackOptions& options, const LoadedModel& training, std::span<const std::byte> state);

}  // namespace nacre::tools

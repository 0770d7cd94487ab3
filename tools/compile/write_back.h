// Learned numbers, back in the file that the network came from. They take the places of its numbers, in the types of
// the file, and every other byte stays; the external data of an ONNX file come into it. For users who made the
// network and go on with it elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/compile/deployed.h"

namespace nacre::tools {

struct WriteBackOptions {
  std::string network;                        // a .keras, .h5 or .onnx file
  ImportOptions importing = {.train = true};  // as the training's
};

struct WrittenBack {
  Deployed counts;                  // constants and adapters; its bytes are the file's
  size_t tensors = 0, numbers = 0;  // of the file, that were learned
};

// `state`: of `training`, trained. Throws where the file stores a learned constant as something else than its numbers
// (codes, a product, in pieces or beside the file), or one number twice that was learned apart.
WrittenBack write_back(const WriteBackOptions& options, const LoadedModel& training, std::span<const std::byte> state);

}  // namespace nacre::tools

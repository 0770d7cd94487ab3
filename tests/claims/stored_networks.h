// Runs networks whose files stand in tables of tests/peers, under a policy, for claims that compare numbers with
// those of other systems.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/compile/compile.h"

namespace nacre::test {

struct StoredNetwork {
  std::string name;
  std::vector<uint8_t> file;
  std::string policy = "";  // "": the file's own policy
  const tools::Calibration* calibration = nullptr;
  std::function<void(tools::Graph&)> change = nullptr;  // changes the simplified graph
};

// Returns the network's first output for `rows` samples, one sample behind the other. `inputs` has for each input of
// the network its rows as float32, one behind the other; the network gets them in the input's own float type.
std::vector<float> run_stored(const StoredNetwork& network, const std::vector<std::vector<float>>& inputs, size_t rows);

}  // namespace nacre::test

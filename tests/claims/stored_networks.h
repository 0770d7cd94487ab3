// Networks whose files stand in tables of tests/peers, run under a policy: what claims about numbers of other systems
// compare.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/compile/compile.h"

namespace nacre::test {

struct StoredNetwork {
  std::string name;
  std::vector<uint8_t> file;
  std::string policy = "";  // "": as the file says
  const tools::Calibration* calibration = nullptr;
  std::function<void(tools::Graph&)> change = nullptr;  // of the simplified graph
};

// Outputs for `rows` samples, one behind the other: of each input the rows as float32, one behind the other, given in
// the input's float type. Of several outputs the first.
std::vector<float> run_stored(const StoredNetwork& network, const std::vector<std::vector<float>>& inputs, size_t rows);

}  // namespace nacre::test

// FloatNetwork runs a network in float32, as the network is before policies, and keeps every value readable. Codes of a
// quantized source are decoded, and its quantizers round nothing. Ranges are found from these real numbers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/calibration/samples.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

class FloatNetwork {
 public:
  // A float32 value that is an input or that a node writes.
  struct Tap {
    std::string name;
    int layer = kNone;  // layer of the node that writes it; kNone for an input, or if the node has no layer
    uint32_t tensor = 0;
  };

  // `simplified` is the graph before quantizers are attached and policies applied.
  explicit FloatNetwork(const Graph& simplified);

  const std::vector<Tap>& taps() const { return taps_; }

  // Runs one sample. value() returns its numbers until the next run, without the other rows of the compiled batch.
  void run(const Samples& samples, int64_t sample);
  std::span<const float> value(const Tap& tap) const;

 private:
  LoadedModel model_;
  BoundProgram bound_;
  std::vector<Tap> taps_;
};

}  // namespace nacre::tools

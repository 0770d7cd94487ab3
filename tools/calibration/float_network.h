// A network in float32, as it stands before policies, with every value of it readable after a run. Codes of a quantized
// source are decoded, and its quantizers rounded nothing: these are the reals that ranges are found from.
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
    int layer = kNone;  // of the node that writes it; kNone: an input, or no layer's
    uint32_t tensor = 0;
  };

  // `simplified`: before quantizers are attached and policies applied.
  explicit FloatNetwork(const Graph& simplified);

  const std::vector<Tap>& taps() const { return taps_; }

  // One sample. Valid until the next: the values of it alone, without the rows of the compiled batch that it leaves
  // out.
  void run(const Samples& samples, int64_t sample);
  std::span<const float> value(const Tap& tap) const;

 private:
  LoadedModel model_;
  BoundProgram bound_;
  std::vector<Tap> taps_;
};

}  // namespace nacre::tools

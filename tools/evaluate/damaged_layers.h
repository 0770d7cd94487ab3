// Finds layers that calibrated codes damage: compares their values with those in float32, on a few of the samples
// that gave the ranges.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/calibrate.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct DamagedLayer {
  std::string layer;
  double sqnr_db = 0;  // of its worst value (error_measure.h)
};

inline constexpr int kDamageSamples = 8;
inline constexpr double kDamageBound = 6;  // dB: the error is half as large as the values

// Returns the damaged layers, worst first. `model` must be compiled from `simplified` for this machine. Returns
// nothing if the source has codes of its own, or no program is for this machine.
std::vector<DamagedLayer> damaged_layers(const Graph& simplified, const LoadedModel& model, const Samples& samples,
                                         const Calibration& calibration);

}  // namespace nacre::tools

// Layers that codes of calibrated ranges leave little of: their values beside those in float32, on a few of the samples
// that the ranges were found from.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/calibrate.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct DamagedLayer {
  std::string layer;
  double sqnr_db = 0;  // of its worst value: error_measure.h
};

inline constexpr int kDamageSamples = 8;
inline constexpr double kDamageBound = 6;  // dB: the error is half as large as the values

// `model` was compiled of `simplified` for this machine; the worst first. Empty where the source has codes of its own,
// or no program is for this machine.
std::vector<DamagedLayer> damaged_layers(const Graph& simplified, const LoadedModel& model, const Samples& samples,
                                         const Calibration& calibration);

}  // namespace nacre::tools

// Finds int8/static layers whose results differ much from those in float32, on a few of the samples that gave the
// ranges.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/calibrate.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct DamagedLayer {
  std::string layer;
  double sqnr_db = 0;  // the lowest SQNR of its tensors (error_measure.h)
};

inline constexpr int kDamageSamples = 8;
inline constexpr double kDamageBound = 6;  // dB: the error is half as large as the values

// Returns the layers with an SQNR below kDamageBound, lowest first. `model` must be compiled from `simplified`. Returns
// none if the network's file has codes of its own, if `model` has no program for "host", or if there are no samples.
std::vector<DamagedLayer> damaged_layers(const Graph& simplified, const LoadedModel& model, const Samples& samples,
                                         const Calibration& calibration);

}  // namespace nacre::tools

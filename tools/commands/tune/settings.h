// Checks the options of `nacre tune` and turns them into the settings of a training.
#pragma once

#include <memory>
#include <string>

#include "tools/commands/convert/convert.h"
#include "tools/commands/tune/tune.h"
#include "tools/importers/importer.h"
#include "tools/model/loaded_model.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

inline constexpr const char* kReport = "this is a defect of the converter: report it with the network";

// Fills options that the command line leaves out from a Keras file: loss, optimizer, rate, schedule, clipping.
TuneOptions with_source(const TuneOptions& o);

// Checks options before any work: an answer to a typing error should not take a minute. Throws Error.
void check_options(const TuneOptions& o);

// Returns the options of the nacre convert that makes the training model from the network. It gives equal bytes, so a
// checkpoint fits both.
ConvertOptions conversion_of(const TuneOptions& o);
std::unique_ptr<LoadedModel> compile_network(const TuneOptions& o, const Calibration* calibration = nullptr);

// Returns how a training's network is imported: for training (`batch`: rows at once), or for the deployed model (0).
ImportOptions importing_of(const TuneOptions& o, int batch);

TuneSettings settings_of(const TuneOptions& o, const LoadedModel& model, const Objective& objective,
                         const Dataset& data, const Split& split);

}  // namespace nacre::tools

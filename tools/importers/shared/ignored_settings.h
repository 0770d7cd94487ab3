// Handles settings of a network's file that the caller allows the import to ignore. The import refuses a setting that
// it does not carry out and prints the setting's name: a layer's class (GaussianNoise) or CLASS.SETTING
// (LSTM.dropout, optimizer.amsgrad). ImportOptions::ignored holds the names that the caller chose to ignore. A class
// alone stands for all of its settings.
//
//   if (!goes_on_without(options, "LSTM.dropout")) problem("dropout of 0.2: " + how_to_ignore("LSTM.dropout"));
#pragma once

#include <set>
#include <string>

#include "tools/importers/importer.h"

namespace nacre::tools {

bool goes_on_without(const ImportOptions& options, const std::string& setting);

// Returns "--ignore-setting LSTM.dropout goes on without it", for example.
std::string how_to_ignore(const std::string& setting);

// Refuses a name of options.ignored that is not in `met`, because it names no setting that the file's import refuses.
void require_all_met(const ImportOptions& options, const std::set<std::string>& met, const std::string& path);

}  // namespace nacre::tools

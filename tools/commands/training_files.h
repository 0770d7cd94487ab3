// Writes the page of curves (--html) and the table of epochs (--csv) of a training anew after every epoch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/commands/tune/tune.h"
#include "tools/files/side_files.h"
#include "tools/tuner/history.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

class TrainingFiles {
 public:
  // `steps`: number of steps of an epoch.
  TrainingFiles(const TuneOptions& options, const Objective& objective, const Dataset& data, const Split& split,
                const TuneSettings& settings, uint32_t steps);

  // Adds the written model's facts and a sentence about it.
  void add_model(std::vector<std::pair<std::string, std::string>> facts, const std::string& sentence) {
    page_.model = std::move(facts);
    page_.summary.push_back(sentence);
  }
  // Writes the finished epochs. Returns a warning for each file the first time that it fails. `last`: no epoch follows.
  std::vector<std::string> write(const std::vector<EpochRecord>& epochs, bool last);
  bool written(const std::string& path) const { return beside_.written(path); }
  void require_written(const std::string& what_is) const { beside_.require_written(what_is); }

 private:
  const TuneOptions& options_;
  TrainingPage page_;
  SideFiles beside_;
};

}  // namespace nacre::tools

// The page of curves and the log of a training, written anew after every epoch.
#pragma once

#include <string>
#include <vector>

#include "tools/commands/tune.h"
#include "tools/tuner/history.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

class TrainingFiles {
 public:
  // `steps`: of an epoch.
  TrainingFiles(const TuneOptions& options, const Objective& objective, const Dataset& data, const Split& split,
                const TuneSettings& settings, uint32_t steps);

  void add(const std::string& sentence) { page_.summary.push_back(sentence); }
  void write(const std::vector<EpochRecord>& epochs);  // those that are done

 private:
  const TuneOptions& options_;
  TrainingPage page_;
};

}  // namespace nacre::tools

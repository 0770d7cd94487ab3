// Writes the model of nacre tune -o. If a network was tuned, that is the network compiled anew for deployment. If a
// training model was tuned, it is the program that this model infers with, because the network's file is not at hand.
#pragma once

#include <optional>
#include <string>

#include "tools/base/json.h"
#include "tools/commands/tune/tune.h"
#include "tools/compile/deployed.h"
#include "tools/evaluate/evaluation.h"
#include "tools/model/program_cost.h"
#include "tools/tuner/rows.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {

class TunedOutput {
 public:
  // All arguments must outlive it. `decisive`: TuneSettings::options, which becomes metadata of the model. If an output
  // of a network is asked for, the constructor reads the network's file; write() does not read it again.
  TunedOutput(const TuneOptions& options, const Objective& objective, const Dataset& data, const Split& split,
              const std::string& decisive, LoadedTrainer& trainer);

  // Makes the model of the initial state before the first step, runs a row through it, and drops it. Throws the
  // errors that would otherwise come after the last step.
  void require_possible() const;

  // Makes the model from the trainer's state and writes it. `judged`: scores it first, and throws for infinity or NaN.
  void write(bool judged);

  bool written() const { return written_.has_value(); }
  std::string judged_text() const;  // "loss 0.12, 98.1 % right on the 200 rows of validation"
  // The written model's name, score and bytes for the page of curves, with the epoch of its weights.
  std::vector<std::pair<std::string, std::string>> facts(uint32_t epoch) const;
  std::string conditions() const;  // the samples of the score, and the command that measures latency
  void print() const;
  Json json() const;

 private:
  struct Written {
    Deployed deployed;
    Statistics statistics = {};
    Judged judged = {};
    std::string rows = {};  // the rows that judge it
  };
  void judge(Written& w) const;

  const TuneOptions& options_;
  const Objective& objective_;
  const Dataset& data_;
  const Split& split_;
  LoadedTrainer& trainer_;
  const std::vector<std::pair<std::string, std::string>> metadata_;
  std::optional<Deployment> deployment_;  // set for a network
  std::optional<Written> written_;
};

}  // namespace nacre::tools

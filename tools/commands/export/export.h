// nacre export: what a checkpoint holds, as an inference model, or in the file that the network came from.
#pragma once

#include <string>

#include "tools/compile/deployed.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct ExportOptions {
  std::string model, checkpoint, output;
  bool best = false;                 // of nacre tune's checkpoints: the best epoch's
  bool any_training = false;         // a checkpoint of another training too: what matches in name, type and size
  std::string network;               // what the training model was made of: compiled anew with what was learned
  bool keras = false, onnx = false;  // network's own file with what was learned, in place of a model
  PolicyArguments policies;          // of network
  RangeSamples samples;              // of network: for ranges that training did not find
  std::vector<std::string> shapes;   // of network: NAME=SIZES, of axes that it leaves open
  std::vector<std::string> ignored;  // of network: settings of its file that are gone on without
  int batch = 0;                     // of network; 0: as in the file, and 1 where the file leaves it open
  bool json = false;
};

void export_model(const ExportOptions& options);

}  // namespace nacre::tools

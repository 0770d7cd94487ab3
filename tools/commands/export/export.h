// nacre export: writes what a checkpoint holds as an inference model, or in the network's own file format.
#pragma once

#include <string>

#include "tools/compile/deployed.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct ExportOptions {
  std::string model, checkpoint, output;
  bool best = false;          // for nacre tune's checkpoints: take the best epoch
  bool any_training = false;  // take the tensors of another training's checkpoint whose name, type and size match
  // file that the training model was made from, to be compiled anew or written back with the learned values; "": none
  std::string network;
  bool keras = false, onnx = false;  // write the network's own file with the learned values, no model
  PolicyArguments policies;          // of `network`
  RangeSamples samples;              // of `network`: for ranges that training did not find
  std::vector<std::string> shapes;   // of `network`: NAME=SIZES, for axes that it leaves open
  std::vector<std::string> ignored;  // of `network`: settings of its file to ignore
  int batch = 0;                     // of `network`; 0: as in the file, or 1 if the file leaves it open
  bool json = false;
};

void export_model(const ExportOptions& options);

}  // namespace nacre::tools

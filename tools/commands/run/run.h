// nacre run: runs a model on inputs from files, writes outputs to files, and prints times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/files/command_files.h"
#include "tools/model/run_inputs.h"
#include "tools/model/running.h"

namespace nacre::tools {

struct RunOptions {
  std::string model;
  InputOptions inputs;
  std::string output;       // a directory; "": none
  std::string all_tensors;  // a directory; "": none
  std::string target;       // target of the program, as in LoadedModel::find_program
  Running running;
  bool profile = false;         // times steps, over `repeat` runs (at least 20) of the first sample
  uint32_t repeat = 1;          // runs of each sample, each timed
  uint64_t of_stream = 0;       // runs of one stream before the next begins; 0: all
  std::optional<uint64_t> top;  // how many highest scores of a sample to print: `most` in top_scores.h
  bool dequantize_outputs = false;
  bool json = false;
};

// `given`: the files that the options name. No output file may overwrite an input among them.
void run(const RunOptions& options, const CommandFiles& given);

}  // namespace nacre::tools

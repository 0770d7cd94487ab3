// nacre tune: trains a model on labelled data, keeps checkpoints, writes what it learned as a new inference model.
#pragma once

#include <cstdint>
#include <string>

#include "tools/commands/convert/convert.h"
#include "tools/commands/training_arguments.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct TuneOptions {
  std::string model;                 // a training model, or a network's file with training.loss
  TrainingArguments training;        // for a network
  PolicyArguments policies;          // for a network
  RewriteArguments rewrite;          // for a network
  std::vector<std::string> shapes;   // for a network
  std::vector<std::string> ignored;  // for a network: settings of its file to ignore
  std::string data, labels, validate, scale;
  bool cast_samples = false;
  uint32_t epochs = 10;
  uint32_t batch = 0;        // 0: what a training model takes at once; for a network 32
  uint32_t micro_batch = 0;  // for a network: rows at once; 0: the batch
  float learning_rate = 0.01f;
  // whether --optimizer, --lr and --schedule are given; else the file's are taken
  bool names_optimizer = false, names_rate = false, names_schedule = false;
  std::string schedule = "constant";
  bool shuffle = true;
  uint32_t early_stop = 0;  // epochs of patience
  double least = 0;         // decrease that counts as better
  std::string keep;         // best or last; "": best if there is validation
  uint32_t most_refused = 10;
  std::string checkpoint, start_from;
  uint32_t checkpoint_steps = 0;
  bool restart = false;
  std::string target;            // of the programs that train; a network is compiled for it; "": find_program
  std::string kernels = "auto";  // kernel_choice.h
  uint32_t threads = 1;
  bool mpi = false;      // this is one of the processes that mpirun started
  std::string compress;  // with --mpi: "", bfloat16, float8
  std::string output, csv, html;
  bool json = false;
};

// Returns whether the file holds a model of Nacre.
bool is_model(const std::string& path);

// Trains. If a signal interrupts it, saves and ends by that signal. Throws Error if it fails.
void tune(const TuneOptions& options);

}  // namespace nacre::tools

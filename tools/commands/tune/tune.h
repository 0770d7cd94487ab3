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
  TrainingArguments training;        // of a network
  PolicyArguments policies;          // of a network
  RewriteArguments rewrite;          // of a network
  std::vector<std::string> shapes;   // of a network
  std::vector<std::string> ignored;  // of a network: settings of its file that are gone on without
  std::string data, labels, validate, scale;
  bool cast_samples = false;
  uint32_t epochs = 10;
  uint32_t batch = 0;        // 0: what a training model takes at once; of a network 32
  uint32_t micro_batch = 0;  // of a network: rows at once; 0: the batch
  float learning_rate = 0.01f;
  // whether --optimizer, --lr and --schedule are given: else the file's count
  bool names_optimizer = false, names_rate = false, names_schedule = false;
  std::string schedule = "constant";
  bool shuffle = true;
  uint32_t early_stop = 0;  // epochs of patience
  double least = 0;         // that counts as better
  std::string keep;         // best, last; "": best where there is validation
  uint32_t most_refused = 10;
  std::string checkpoint, start_from;
  uint32_t checkpoint_steps = 0;
  bool restart = false;
  std::string target;            // of the programs that train; of a network what it is compiled for; "": find_program
  std::string kernels = "auto";  // kernel_choice.h
  uint32_t threads = 1;
  bool mpi = false;      // one of the processes that mpirun started
  std::string compress;  // of --mpi: "", bfloat16, float8
  std::string output, csv, html;
  bool json = false;
};

// Whether the file holds a model of Nacre's; else it may be a network's.
bool is_model(const std::string& path);

// Ends by the signal that interrupted it, after saving; or throws Error.
void tune(const TuneOptions& options);

}  // namespace nacre::tools

// nacre convert: converts a network's file to a model file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/numeric/rounding.h"
#include "tools/calibration/calibrate.h"
#include "tools/commands/training_arguments.h"
#include "tools/passes/front_end.h"
#include "tools/passes/passes.h"
#include "tools/passes/rewrite/rewrite.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct RewriteArguments {
  std::string type;  // mixed_float16, mixed_bfloat16; "": no rewrite
  RewriteOptions options;
  bool explain = false;
};

struct CalibrationArguments {
  std::string data;  // "": none
  std::string method = "min_max";
  CalibrationOptions options;
  std::vector<std::string> overrides;  // PATTERN=METHOD
  SampleOptions samples;
};

struct ConvertOptions {
  std::string network, model;
  int batch = 0;                     // 0: as in the file, or 1 if the file leaves it open
  std::vector<std::string> shapes;   // NAME=SIZES, for axes that the file leaves open
  std::vector<std::string> ignored;  // settings of the file to ignore: ignored_settings.h
  std::vector<std::string> states;   // IN=OUT, kept from run to run
  bool io_nhwc = false;
  std::string banks;   // "tcm=64K,sram=512K"; "": one bank without limit
  std::string labels;  // run/described_inputs.h
  std::vector<std::string> normalize;
  bool keep_inputs = false;
  std::vector<std::string> targets = {"host"};  // the file has programs for each
  std::string place;                            // commands/place_option.h
  bool tune = false;                            // finds `place` by measuring
  uint32_t threads = 1;                         // threads for measuring
  Rounding rounding = Rounding::kDouble;
  bool fold_batch_norm = true;
  std::vector<std::string> kept;  // kept_rewrites
  PolicyArguments policies;
  std::string emit_policy;  // policy_output
  RewriteArguments rewrite;
  CalibrationArguments calibration;
  IoTypes io_types = IoTypes::kSource;
  FrontEndRequest front_end;
  bool pad_features = false;
  bool fuse = true;
  std::string patches;         // parse_patches; "": none
  TrainingArguments training;  // loss "": an inference model
  uint32_t golden = 0;         // pairs
  std::string stop_after;      // a stage; prints the graph instead of writing a model
  bool dump = false;           // prints the graph after the last pass
  bool strip_names = false;
  bool json = false, verbose = false;
};

// Returns the names of rewrites that may change last bits and can be left out, besides batch norm folding.
std::vector<std::string> kept_rewrites();

// The file that --emit-policy names, "FILE" or "keras=FILE". policy_output() throws if no file follows "keras".
struct PolicyOutput {
  std::string path;
  bool keras = false;  // in Keras's JSON
};
PolicyOutput policy_output(const std::string& value);

void convert(const ConvertOptions& options);

// Returns the options that change the bytes of the model, as on a command line, but with hashes for files.
std::string options_text(const ConvertOptions& options);

// Adds the model's origin, labels and normalization to its metadata: no path and no time, so bytes are reproducible.
void add_metadata(Graph& graph, const ConvertOptions& options);

}  // namespace nacre::tools

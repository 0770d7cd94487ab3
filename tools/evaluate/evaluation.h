// Models on a labelled set: what `nacre eval` prints, and what `nacre search` and `nacre report` ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/evaluate/metrics.h"
#include "tools/files/npy.h"
#include "tools/model/running.h"

namespace nacre::tools {

struct LabelledSet {
  NpzArrays data;
  std::optional<NpyArray> labels;
  std::string metric_name;
  Metric metric;
};

struct SetOptions {
  std::string data, labels, indices;  // files; no indices: every sample
  std::string metric = "top1";
};

// Reads the files and keeps the samples that `indices` names.
LabelledSet read_set(const SetOptions& options);

// All samples through one program.
struct Outcome {
  ScoredSamples samples;
  double median_us = 0;  // per sample: of the times of single runs over their rows
  RanBy by = {};
};

struct RunChoice {
  std::string target = {}, output = {};  // of the program; "": the host's, and the only output
  Running running = {};                  // the kernels of `nacre run`, where nothing else is asked for
  bool cast = false;
  bool progress = true;              // shown on a terminal
  std::optional<Scales> codes = {};  // what int8 data means: the scale of the first model's input
  bool (*stopped)() = nullptr;       // asked after every run: Interrupted is thrown where it says so
};

// The samples once for their outputs, and where that is soon done some of them again for the time: at least 11 runs,
// and until 50 ms are over, as `nacre bench` times them, so that the median means something.
Outcome run_set(const LoadedModel& model, const LabelledSet& set, const RunChoice& choice,
                std::vector<std::string>& notes);

// The labels as the metric takes them, checked against the outputs.
Labels labels_for(const LabelledSet& set, const ScoredSamples& samples);

struct Judgement {  // of one model
  std::string model;
  Score score;
  double drop = 0;    // against the first; NaN where one of the two is
  double damage = 0;  // of the outputs, against the first's
  uint64_t file_bytes = 0, weight_bytes = 0, arena_bytes = 0;
  double median_us = 0;
  RanBy by = {};  // of the outputs and of the time
  Confusion confusion = {};
};

struct Evaluation {
  std::vector<Judgement> models;
  std::vector<std::string> notes;
  uint64_t samples = 0;
};

// The first model is the one that the others are measured against.
Evaluation evaluate_models(const std::vector<const LoadedModel*>& models, const LabelledSet& set,
                           const RunChoice& choice);

// "98.67 %", "0.9231", "0.00123"
std::string value_text(const Metric& metric, double value);

}  // namespace nacre::tools

// Judges models on a labelled set, for `nacre eval`, `nacre search` and `nacre report`.
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
  std::string data, labels, indices;  // files; indices "": every sample
  std::string metric = "top1";
};

// Reads the files and keeps the samples that `indices` names.
LabelledSet read_set(const SetOptions& options);

// The result of running all samples through one program.
struct Outcome {
  ScoredSamples samples;
  double median_us = 0;  // per sample: a run's time divided by its rows
  RanBy by = {};
};

struct RunChoice {
  std::string target = {}, output = {};  // "": the program that fits this machine, and its only output
  Running running = {};                  // the kernels of `nacre run` by default
  bool cast = false;
  bool progress = true;              // shows progress on a terminal
  std::optional<Scales> codes = {};  // scales of int8 data: those of the first model's input
  bool (*stopped)() = nullptr;       // asked after every run; if true, Interrupted is thrown
};

// Runs every sample once for its outputs. Runs samples again, from the first on, until at least 11 runs and 50 ms are
// timed, so that the median is meaningful. If the first pass took less than 50 ms, its times are dropped.
Outcome run_set(const LoadedModel& model, const LabelledSet& set, const RunChoice& choice,
                std::vector<std::string>& notes);

// Returns the labels in the form that the metric takes, checked against the outputs.
Labels labels_for(const LabelledSet& set, const ScoredSamples& samples);

struct Judgement {  // of one model
  std::string model;
  Score score;
  double drop = 0;    // against the first model; NaN if one of the scores is
  double damage = 0;  // output_damage (metrics.h) against the first model
  uint64_t file_bytes = 0, weight_bytes = 0, arena_bytes = 0;
  double median_us = 0;
  RanBy by = {};  // kernels and threads that gave outputs and time
  Confusion confusion = {};
};

struct Evaluation {
  std::vector<Judgement> models;
  std::vector<std::string> notes;
  uint64_t samples = 0;
};

// Scores the models on the set. The fields `drop` and `damage` of each are against the first model.
Evaluation evaluate_models(const std::vector<const LoadedModel*>& models, const LabelledSet& set,
                           const RunChoice& choice);

// Returns "98.67 %" for a metric that counts, else "0.9231" if higher is better, else "0.00123"; or "not finite".
std::string value_text(const Metric& metric, double value);

}  // namespace nacre::tools

#include "tools/evaluate/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/progress.h"
#include "tools/evaluate/decode.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/array_numbers.h"
#include "tools/files/convert_elements.h"
#include "tools/model/program_cost.h"
#include "tools/model/run_inputs.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kLeastRuns = 11;  // for a median
// microseconds; if the first pass is shorter, its cold caches matter, and its times are dropped
constexpr double kLeastTimed = 50e3;

// Returns the index in `names` of the output to judge.
size_t find_output(const LoadedModel& model, const std::vector<std::string>& names, const std::string& wanted) {
  const auto found = std::ranges::find(names, wanted);
  if (wanted.empty() && names.size() == 1) return 0;
  if (!wanted.empty() && found != names.end()) return size_t(found - names.begin());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  throw Error(kUsage, model.path(), wanted.empty() ? "has several outputs" : "has no output " + wanted,
              "name one with " + option("judge") + ": " + all);
}

class SetRunner {
 public:
  SetRunner(const LoadedModel& model, uint32_t program, RunInputs inputs, size_t output, const Running& running)
      : bound_(bind_to_run(model, program, running)), inputs_(std::move(inputs)), output_(output) {}

  Outcome run(bool show, bool (*stopped)()) {
    std::optional<Progress> progress;
    if (show) progress.emplace("eval", inputs_.runs);
    Outcome outcome;
    std::vector<double> times;
    double sum = 0;
    const auto time = [&](uint64_t run) {
      times.push_back(run_once(run));
      sum += times.back() * double(rows(run) == 0 ? inputs_.batch : rows(run));
      if (stopped != nullptr && stopped()) throw Interrupted();
    };
    for (uint64_t run = 0; run < inputs_.runs; ++run) {
      time(run);
      keep_output(run, outcome.samples.outputs);
      if (progress) progress->show(run + 1);
    }
    if (sum < kLeastTimed) times.clear(), sum = 0;
    for (uint64_t run = 0; times.size() < kLeastRuns || sum < kLeastTimed; ++run) {
      if (run % inputs_.runs == 0) bound_.loaded().require(bound_.program().start());  // otherwise a cache may be full
      time(run % inputs_.runs);
    }
    std::ranges::sort(times);
    outcome.median_us = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
    outcome.samples.samples = inputs_.rows();
    outcome.by = ran_by(bound_);
    return outcome;
  }

 private:
  uint32_t rows(uint64_t run) const { return run + 1 == inputs_.runs ? inputs_.last_rows : 0; }

  double run_once(uint64_t run) {  // microseconds per row
    const Program& program = bound_.program();
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> input = program.input(i);
      const std::span<const uint8_t> sample = inputs_.sample(i, run, input.size());
      std::memcpy(input.data(), sample.data(), sample.size());
    }
    const auto start = std::chrono::steady_clock::now();
    const Status status = rows(run) == 0 ? program.run() : program.run_rows(rows(run));
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    bound_.loaded().require(status);
    return time.count() / double(rows(run) == 0 ? inputs_.batch : rows(run));
  }

  void keep_output(uint64_t run, std::vector<double>& outputs) const {
    const uint32_t id = bound_.program().view().outputs[output_];
    const TensorRecord& r = bound_.loaded().model().tensors()[id];
    const std::span<const std::byte> all = bound_.program().output(uint32_t(output_));
    StoredElements elements = {.type = r.element, .dims = {r.dims, r.dims + r.rank}, .bytes = {}};
    const size_t bytes = rows(run) == 0 ? all.size() : all.size() / inputs_.batch * rows(run);
    if (rows(run) != 0) elements.dims[0] = rows(run);
    if (r.element != ElementType::kFloat32) elements.scales = bound_.loaded().scales(id);
    elements.bytes = {reinterpret_cast<const uint8_t*>(all.data()), bytes};
    const std::vector<double> reals = decode(elements);
    outputs.insert(outputs.end(), reals.begin(), reals.end());
  }

  BoundProgram bound_;
  RunInputs inputs_;
  size_t output_;
};

// Returns the data of the first input as real numbers, for reconstruction errors. `codes` decode data that are codes.
std::vector<double> real_inputs(const NpyArray& array, std::optional<Scales> codes) {
  return decode({.type = array.type,
                 .dims = array.dims,
                 .bytes = array.data,
                 .scales = is_code_of_reals(array.type) ? std::move(codes) : std::nullopt});
}

// Returns the scales of the first input, if it has codes.
std::optional<Scales> input_codes(const LoadedModel& model, const std::string& target) {
  const ProgramView view = model.model().program(model.infer_program(target));
  if (view.inputs.empty() || !is_code_of_reals(model.model().tensors()[view.inputs[0]].element)) return std::nullopt;
  return model.scales(view.inputs[0]);
}

// Returns zeros, as many as the output has for `rows` samples, so that labels_for() can refuse before the run.
ScoredSamples outputs_to_come(const LoadedModel& model, const ProgramView& view, size_t output, uint64_t rows) {
  const TensorRecord& r = model.model().tensors()[view.outputs[output]];
  size_t width = 1;
  for (int i = 0; i < r.rank; ++i) width *= size_t(r.dims[i]);
  return {.samples = rows, .outputs = std::vector<double>(rows * (width / view.batch)), .inputs = {}};
}

Judgement judge(const LoadedModel& model, const std::string& target, const Outcome& outcome) {
  const Statistics s = statistics(model, model.infer_program(target));
  return {.model = model.path(),
          .score = {},
          .file_bytes = s.file_bytes,
          .weight_bytes = s.weight_bytes,
          .arena_bytes = s.arena_bytes,
          .median_us = outcome.median_us,
          .by = outcome.by};
}

}  // namespace

namespace {

int64_t most_rows(const NpzArrays& data) {
  int64_t rows = 1;
  for (const auto& [name, array] : data) rows = std::max(rows, array.dims.empty() ? 1 : array.dims[0]);
  return rows;
}

// Reads the labels. A sample has at least one number, and one label or a row of one-hot numbers. So a file with more
// labels than the data hold numbers is refused before it is read.
NpyArray read_labels(const std::string& path, const LabelledSet& set) {
  return read_npy(path, [&](const std::string&, const NpyArray& header) {
    if (set.metric.wants_targets()) return;
    require_integers(header);
    uint64_t numbers = 0;
    for (const auto& [name, array] : set.data) numbers += uint64_t(array.elements());
    if (std::ranges::find(header.dims, 0) != header.dims.end()) return;
    const auto labels = uint64_t(header.elements() / (header.dims.size() == 2 ? header.dims[1] : 1));
    if (labels > numbers)
      throw Error(kBadInput, path,
                  fmt::format("holds {} labels, and the data hold {} numbers", grouped(labels), grouped(numbers)),
                  "give one label per sample");
  });
}

}  // namespace

LabelledSet read_set(const SetOptions& options) {
  LabelledSet set = {.data = read_arrays(options.data),
                     .labels = std::nullopt,
                     .metric_name = options.metric,
                     .metric = parse_metric(options.metric)};
  if (!options.labels.empty()) set.labels = read_labels(options.labels, set);
  if (options.indices.empty()) return set;
  const std::vector<int64_t> rows = read_rows(options.indices, most_rows(set.data));
  for (auto& [name, array] : set.data) array = select_rows(array, rows, options.indices);
  if (set.labels) set.labels = select_rows(*set.labels, rows, options.indices);
  return set;
}

Outcome run_set(const LoadedModel& model, const LabelledSet& set, const RunChoice& choice,
                std::vector<std::string>& notes) {
  const uint32_t program = model.infer_program(choice.target);
  const ProgramView view = model.model().program(program);
  const ProgramNames names = model.program_names(program);
  std::vector<NpyArray> arrays = arrays_for(names.inputs, set.data, notes);
  const std::optional<Scales> codes = choice.codes ? choice.codes : input_codes(model, choice.target);
  const bool reconstructs = set.metric.kind == Metric::Kind::kAuc && !arrays.empty();  // only then are the inputs read
  std::vector<double> inputs = reconstructs ? real_inputs(arrays[0], codes) : std::vector<double>();
  for (size_t i = 0; i < arrays.size(); ++i)
    arrays[i] = fit_input(model, view.inputs[i], names.inputs[i], std::move(arrays[i]),
                          {.cast = choice.cast, .codes = codes}, notes);
  RunInputs stacked = stack_inputs(model, program, arrays, false);
  const size_t output = find_output(model, names.outputs, choice.output);
  if (set.labels) labels_for(set, outputs_to_come(model, view, output, stacked.rows()));
  SetRunner runner(model, program, std::move(stacked), output, choice.running);
  Outcome outcome = runner.run(choice.progress, choice.stopped);
  outcome.samples.inputs = std::move(inputs);
  return outcome;
}

Labels labels_for(const LabelledSet& set, const ScoredSamples& samples) {
  Labels labels;
  if (!set.labels)
    throw Error(kUsage, option("labels"), "no labels are given", "name a .npy with one label per sample");
  const NpyArray& array = *set.labels;
  if (set.metric.wants_targets()) {
    labels.targets = decode({.type = array.type, .dims = array.dims, .bytes = array.data});
  } else {
    const auto width = int64_t(samples.width());
    const bool one_hot = width > 1 && array.dims == std::vector<int64_t>{int64_t(samples.samples), width};
    labels.classes = one_hot ? classes_of_one_hot(array, size_t(width)) : integers_of(array);
  }
  check_labels(set.metric, samples, labels, array.place);
  return labels;
}

Evaluation evaluate_models(const std::vector<const LoadedModel*>& models, const LabelledSet& set,
                           const RunChoice& choice) {
  Evaluation evaluation;
  RunChoice fitted = choice;
  if (!fitted.codes) fitted.codes = input_codes(*models.front(), choice.target);
  ScoredSamples reference;
  for (const LoadedModel* model : models) {
    const Outcome outcome = run_set(*model, set, fitted, evaluation.notes);
    Judgement judgement = judge(*model, choice.target, outcome);
    const Labels labels = labels_for(set, outcome.samples);
    judgement.score = score(set.metric, outcome.samples, labels);
    judgement.confusion = confusion(set.metric, outcome.samples, labels);
    if (evaluation.models.empty()) reference = outcome.samples;
    const Judgement& first = evaluation.models.empty() ? judgement : evaluation.models.front();
    if (outcome.samples.outputs.size() != reference.outputs.size())
      throw Error(kBadInput, model->path(),
                  fmt::format("gives {} outputs per sample, {} gives {}", outcome.samples.width(), first.model,
                              reference.width()),
                  "compare models of one task");
    judgement.drop = drop(set.metric, first.score.value, judgement.score.value);
    judgement.damage = output_damage(reference, outcome.samples);
    evaluation.models.push_back(std::move(judgement));
  }
  evaluation.samples = reference.samples;
  return evaluation;
}

std::string value_text(const Metric& metric, double value) {
  if (!std::isfinite(value)) return "not finite";
  if (metric.counts()) return fmt::format("{:.2f} %", 100 * value);
  return metric.higher_is_better() ? fmt::format("{:.4f}", value) : fmt::format("{:.5g}", value);
}

}  // namespace nacre::tools

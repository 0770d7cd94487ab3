#include "tools/commands/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/convert/convert.h"
#include "tools/commands/interrupt.h"
#include "tools/compile/compile.h"
#include "tools/evaluate/calibration_set.h"
#include "tools/evaluate/policy_search.h"
#include "tools/files/side_files.h"
#include "tools/model/kernel_choice.h"
#include "tools/policies/pattern.h"
#include "tools/policies/policy_language.h"
#include "tools/report/search_table.h"

namespace nacre::tools {
namespace {

// Returns the layers with weights, as indices into Graph::layers: their policy changes the file's size.
std::vector<int> searched_layers(const Graph& graph) {
  std::set<int> found;
  for (const Node& node : graph.nodes) {
    const OpRule* rule = find_rule(node.op);
    if (rule == nullptr || rule->numerics != Numerics::kMatmul || node.layer == kNone || node.inputs.size() < 2)
      continue;
    const ValueId w = node.inputs[1];
    if (w != kNone && graph.values[size_t(w)].constant()) found.insert(node.layer);
  }
  return {found.begin(), found.end()};
}

// Measures the network under a choice of policies: compiles it, runs it on the set, scores it.
class SearchBench {
 public:
  SearchBench(const SearchOptions& options, Graph graph, LabelledSet set)
      : options_(options), graph_(std::move(graph)), set_(std::move(set)), layers_(searched_layers(graph_)) {
    for (const std::string& text : options.policies) policies_.push_back(parse_policy(text, {"--policies", kUsage}));
    if (layers_.empty())
      throw Error(kUnsupported, options.network, "has no layer with weights", "there is no policy to choose");
    calibrate_once();
  }

  std::vector<std::string> layer_names() const {
    std::vector<std::string> names;
    for (const int layer : layers_) names.push_back(graph_.layers[size_t(layer)].name);
    return names;
  }
  const LabelledSet& set() const { return set_; }
  const RanBy& by() const { return by_; }
  const std::optional<Json>& calibrated_from() const { return calibrated_from_; }
  uint64_t samples() const { return reference_.samples; }
  const std::vector<std::string>& notes() const { return notes_; }

  Graph with_policies(const PolicyChoice& choice) const {
    Graph graph = graph_;
    for (Layer& layer : graph.layers) give(layer, policies_[0]);
    for (size_t i = 0; i < layers_.size(); ++i) give(graph.layers[size_t(layers_[i])], policies_[size_t(choice[i])]);
    return graph;
  }

  // Returns the policy file. It names every layer, so that no name acts as a pattern for another.
  Json map_json(const PolicyChoice& choice) const {
    Json layers = Json::object();
    for (const Layer& layer : graph_.layers) layers[mended(layer.name)] = options_.policies[0];
    for (size_t i = 0; i < layers_.size(); ++i)
      layers[mended(graph_.layers[size_t(layers_[i])].name)] = options_.policies[size_t(choice[i])];
    return {{"default", options_.policies[0]}, {"layers", layers}};
  }

  // Returns nothing, and notes why, if the network does not compile or run so, or a signal came. First call: throws.
  std::optional<Trial> measure(const PolicyChoice& choice) {
    const bool first = reference_.samples == 0;
    try {
      return measure_compiled(compile_graph(with_policies(choice), compile_options()), choice);
    } catch (const Interrupted&) {
      if (caller() != nullptr) throw;
      return std::nullopt;
    } catch (const Error& error) {
      if (first) throw;
      note(error.what());
      return std::nullopt;
    }
  }

 private:
  Trial measure_compiled(Graph compiled, const PolicyChoice& choice) {
    for (const std::string& line : compiled.fallbacks) note(line);
    add_metadata(compiled, conversion(choice));
    const std::vector<uint8_t> bytes = write_compiled(compiled, Target());
    const LoadedModel model(bytes, options_.network, "");
    RunChoice running = {
        .output = options_.output, .running = options_.running, .cast = options_.cast_inputs, .progress = false};
    // The first trial must finish: all others are measured against it.
    if (reference_.samples > 0 && caller() == nullptr) running.stopped = [] { return Interrupt::received() != 0; };
    std::vector<std::string> run_notes;
    const Outcome outcome = run_set(model, set_, running, run_notes);
    if (reference_.samples == 0) {
      labels_ = labels_for(set_, outcome.samples);
      reference_ = outcome.samples;
      by_ = outcome.by;
      for (const std::string& line : run_notes) note(line);
    }
    const double value = score(set_.metric, outcome.samples, labels_).value;
    return {.bytes = double(bytes.size()),
            .metric = set_.metric.higher_is_better() ? value : -value,
            .damage = output_damage(reference_, outcome.samples),
            .microseconds = outcome.median_us};
  }

  // Returns the options of the nacre convert that writes this model from the map. The metadata hold a hash of the map,
  // which is not written yet. The hash of the network stands for it, because all hashes are equally long.
  ConvertOptions conversion(const PolicyChoice& choice) const {
    ConvertOptions made;
    made.network = options_.network;
    made.shapes = options_.shapes;
    made.ignored = options_.ignored;
    made.policies.file = options_.network;
    const auto reads = [&](int policy) { return reads_samples(policies_[size_t(policy)].policy); };
    if (!std::ranges::any_of(choice, reads) && !reads(0)) return made;
    made.calibration.data = options_.calibrate.empty() ? options_.set.data : options_.calibrate;
    made.calibration.samples.cast = options_.cast_inputs;
    return made;
  }

  static void give(Layer& layer, const ParsedPolicy& policy) {
    if (policy.source) return;
    layer.policy = policy.policy;
    layer.asked = true;
  }

  CompileOptions compile_options() const {
    CompileOptions options;  // defaults, as in nacre convert --policy-file
    options.target.kernels = kernels_of_target(options.target.name);
    if (calibrated_) options.calibration = &calibration_;
    return options;
  }

  void calibrate_once() {
    const auto any = [&](auto is) {
      return std::ranges::any_of(policies_, [&](const ParsedPolicy& p) { return is(p.policy); });
    };
    const bool wanted = any(reads_samples);
    if (!wanted && !options_.calibrate.empty()) note(samples_not_read());
    if (!wanted) return;
    const SampleOptions sampling = {.cast = options_.cast_inputs};
    CalibrationOptions calibrating;
    if (any(reads_moments)) calibrating.fitted = [](const Node& node) { return node.layer != kNone; };
    const CalibrationSet apart(graph_, options_.calibrate, options_.set, set_);
    note(apart.said());
    calibrated_from_ = apart.json();
    calibration_ = calibrate(graph_, apart.samples(graph_, sampling), calibrating);
    calibrated_ = true;
  }

  void note(const std::string& line) {
    constexpr size_t kMostNotes = 20;
    if (notes_.size() < kMostNotes && std::ranges::find(notes_, line) == notes_.end()) notes_.push_back(line);
  }

  const SearchOptions& options_;
  Graph graph_;
  LabelledSet set_;
  std::vector<int> layers_;
  std::vector<ParsedPolicy> policies_;
  Calibration calibration_;
  bool calibrated_ = false;
  std::optional<Json> calibrated_from_;
  RanBy by_;
  ScoredSamples reference_;
  Labels labels_;
  std::vector<std::string> notes_;
};

void check_options(const SearchOptions& options) {
  if (!(options.max_drop >= 0)) throw Error(kUsage, "--max-drop", "is below 0", "give a number from 0");
  if (options.policies.size() < 2)
    throw Error(kUsage, "--policies", "names fewer than two policies", "name the reference first, then what to try");
  for (size_t i = 1; i < options.policies.size(); ++i)
    if (std::ranges::find(options.policies.begin(), options.policies.begin() + std::ptrdiff_t(i),
                          options.policies[i]) != options.policies.begin() + std::ptrdiff_t(i))
      throw Error(kUsage, "--policies", fmt::format("names {} twice", options.policies[i]));
  if (options.max_time_us && !(*options.max_time_us > 0)) throw Error(kUsage, "--max-time-us", "is no time");
}

SearchLimits limits_of(const SearchOptions& options) {
  SearchLimits limits = {.max_drop = options.max_drop};
  if (options.max_bytes) limits.max_bytes = double(*options.max_bytes);
  limits.max_microseconds = options.max_time_us;
  return limits;
}

std::string limits_text(const SearchOptions& options) {
  std::string text = fmt::format("a drop of at most {:.6g}", options.max_drop);
  if (options.max_bytes) text += fmt::format(", at most {} bytes", grouped(*options.max_bytes));
  if (options.max_time_us) text += fmt::format(", at most {:.6g} us per sample", *options.max_time_us);
  return text;
}

void print_text(const SearchOptions& options, const SearchBench& bench, const SearchResult& result,
                const SearchWords& words) {
  print(fmt::format("{}: {} under {} policies, {}; {} compiled and run, kernels {}\n", options.network,
                    counted(words.layers.size(), "layer"), words.policies.size(), counted(words.samples, "sample"),
                    counted(uint64_t(result.measurements), "model"), bench.by().text()));
  for (const std::string& note : bench.notes()) print(note + "\n");
  print("\nOne layer at a time: drop, what it adds to the file's bytes, and damage\n" +
        sensitivity_text(result, words) + "\n");
  print(fmt::format("Pareto front ({}; * proposed, + meets the limits; predicted: effects of single layers added)\n",
                    limits_text(options)));
  print(search_text(result, words) + "\n");
  if (!result.best) return;
  Table table({{"layer", Align::kLeft, 12, true}, {"policy", Align::kLeft}});
  const PolicyChoice& choice = result.rows[*result.best].choice;
  for (size_t layer = 0; layer < choice.size(); ++layer)
    table.add({words.layers[layer], words.policies[size_t(choice[layer])]});
  print(table.text(terminal_width()));
}

}  // namespace

void search(const SearchOptions& options) {
  check_options(options);
  port_for(options.running.kernels, "host");  // throws before any network is compiled
  SearchBench bench(options, load_network(options.network, {.shapes = options.shapes, .ignored = options.ignored}),
                    read_set(options.set));
  const SearchProblem problem = {.layers = bench.layer_names().size(),
                                 .policies = options.policies.size(),
                                 .limits = limits_of(options),
                                 .budget = options.budget,
                                 .stopped = [] { return Interrupt::received() != 0; }};
  const Interrupt interrupt(caller() == nullptr);
  uint64_t done = 0;
  SearchResult result;
  {
    Progress progress("search", uint64_t(options.budget));
    result = search_policies(problem, [&](const PolicyChoice& choice) {
      std::optional<Trial> trial = bench.measure(choice);
      progress.show(++done);
      return trial;
    });
  }
  const SearchWords words = {.layers = bench.layer_names(),
                             .policies = options.policies,
                             .metric = bench.set().metric,
                             .metric_name = options.set.metric,
                             .samples = bench.samples()};
  SideFiles beside;  // writes the map; if that fails, the result is still shown
  const bool writes = result.best && !options.map.empty();
  const bool written =
      writes && beside.write(options.map, bench.map_json(result.rows[*result.best].choice).dump(2) + "\n") == nullptr;
  if (options.json) {
    Json json = search_json(result, words);
    json["notes"] = bench.notes();
    bench.by().add_to(json);
    if (bench.calibrated_from()) json["calibration"] = *bench.calibrated_from();
    if (result.best) json["written"] = writes && !written ? "" : options.map;
    print_json(json);
  } else {
    print_text(options, bench, result, words);
    if (written) print(fmt::format("policy map -> {}\n", escaped(options.map)));
  }
  beside.require_written("the search itself is shown");
  if (Interrupt::received() != 0) {
    note(fmt::format("stopped after {} of {} models: {}", result.measurements, options.budget,
                     !result.best          ? "none of them meets the limits, and nothing was written"
                     : options.map.empty() ? "the best of them is shown"
                                           : "the best of them is in " + escaped(options.map)));
    flush_printed();
    end_by_signal(Interrupt::received());
  }
  if (!result.best)
    throw Error(kFailed, options.network, "no map that was measured meets the limits: " + limits_text(options),
                "allow more, or name other policies with --policies; nothing was written");
}

}  // namespace nacre::tools

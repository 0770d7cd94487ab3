#include "tools/commands/convert/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/base/print.h"
#include "tools/base/table.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/check.h"
#include "tools/commands/convert/place_table.h"
#include "tools/commands/place_option.h"
#include "tools/compile/compile.h"
#include "tools/compile/training.h"
#include "tools/differentiate/parameters.h"
#include "tools/evaluate/damaged_layers.h"
#include "tools/evaluate/training_memory.h"
#include "tools/evaluate/tried_places.h"
#include "tools/files/atomic_file.h"
#include "tools/files/npy.h"
#include "tools/files/side_files.h"
#include "tools/importers/importer.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/machines.h"
#include "tools/model/program_cost.h"
#include "tools/model/step_kernels.h"
#include "tools/model/writer.h"
#include "tools/passes/memory/plan_memory.h"
#include "tools/policies/write_keras_json.h"
#include "tools/report/kept_weights.h"

namespace nacre::tools {
namespace {

// State of one conversion besides the graph.
struct Work {
  const ConvertOptions& options;
  Calibration calibration;
  std::optional<Graph> calibrated;  // the network that was calibrated, for judge_codes(); none if no range was needed
  Samples few = {};                 // the samples of `calibrated`
  std::vector<DamagedLayer> damaged = {};
  std::vector<RewriteDecision> decisions;
  Json explained;            // what --explain prints: a text, or with --json an object
  PolicyOutput policy_file;  // file of --emit-policy; path "": none
  std::string policy;        // its text
  std::optional<TriedPlaces> tried;
  std::vector<Graph> others;  // after the last pass, for each target but the first
};

bool trains(const Work& work) { return !work.options.training.loss.empty(); }

bool keeps(const ConvertOptions& options, const char* rewrite) {
  return std::ranges::find(options.kept, rewrite) != options.kept.end();
}

void rewrite(Work& work, Graph& graph) {
  const RewriteArguments& rewrite = work.options.rewrite;
  if (rewrite.type.empty()) return;
  work.decisions = rewrite_mixed(graph, rewrite.options);
  if (!rewrite.explain) return;
  if (work.options.json) work.explained = explain_json(graph, rewrite.options, work.decisions);
  else work.explained = explain_text(graph, rewrite.options, work.decisions, terminal_width());
}

// Returns whether a layer reads samples; if none does, notes it. Throws for range options if no layer reads ranges.
bool has_readers(const Work& work, const Graph& graph) {
  const CalibrationArguments& arguments = work.options.calibration;
  if (any_policy(graph, reads_ranges)) return true;
  if (!any_policy(graph, reads_moments) && (trains(work) || !any_policy(graph, reads_amaxes))) {
    note(samples_not_read());
    return false;
  }
  if (arguments.method != CalibrationArguments().method || !arguments.overrides.empty())
    throw Error(kUsage, arguments.overrides.empty() ? "--range-method" : "--range",
                "no layer reads ranges: float8 takes the largest magnitudes, gptq and awq products of inputs",
                "add --policy int8/static_from_float32, or leave it out");
  return true;
}

const Calibration* measure_ranges(Work& work, const Graph& graph) {
  const CalibrationArguments& arguments = work.options.calibration;
  if (arguments.data.empty() || !has_readers(work, graph)) return nullptr;
  CalibrationOptions options = arguments.options;
  options.method = parse_range_method(arguments.method, "--range-method");
  for (const std::string& text : arguments.overrides) options.overrides.push_back(parse_range_rule(text, "--range"));
  if (!trains(work)) options.fitted = fitted_by(graph);
  SampleOptions sampling = arguments.samples;
  sampling.may_be_equal = !any_policy(graph, reads_ranges);
  Samples samples = read_samples(graph, arguments.data, sampling);
  work.calibration = calibrate(graph, samples, options);
  if (!sampling.may_be_equal && !trains(work)) {
    work.calibrated = graph;
    work.few = std::move(samples);
  }
  return &work.calibration;
}

Target target_of(const ConvertOptions& options, const std::string& name) {
  Target target = {.name = name, .banks = {}, .keep_inputs = options.keep_inputs, .kernels = kernels_of_target(name)};
  if (!options.banks.empty()) target.banks = parse_bank_list(options.banks);
  return target;
}

Job job_of(Work& work) {
  const ConvertOptions& o = work.options;
  Job job = {.network = o.network,
             .importing = {.batch = o.batch,
                           .io_nhwc = o.io_nhwc,
                           .shapes = o.shapes,
                           .train = trains(work),
                           .keep_division = keeps(o, "division"),
                           .ignored = o.ignored,
                           .unfreeze = o.training.unfreeze},
             .states = o.states,
             .rewrite = [&](Graph& graph) { rewrite(work, graph); },
             .simplifying = trains(work) ? kSimplifyToTrain
                                         : SimplifyOptions{.fold_batch_norm = o.fold_batch_norm,
                                                           .fold_gelu = !keeps(o, "gelu"),
                                                           .fold_silu = !keeps(o, "silu"),
                                                           .fold_hard_swish = !keeps(o, "hard_swish"),
                                                           .fold_bias = !keeps(o, "bias")},
             .measure = [&](const Graph& graph) { return measure_ranges(work, graph); },
             .compiling = {.policies = parse_policy_options(o.policies),
                           .rounding = o.rounding,
                           .io_types = o.io_types,
                           .pad_features = o.pad_features,
                           .front_end = o.front_end,
                           .fuse = o.fuse,
                           .target = target_of(o, o.targets[0])}};
  if (!o.patches.empty()) job.compiling.patches = parse_patches(o.patches);
  if (!o.rewrite.type.empty()) check_against_rewrite(job.compiling.policies, "--rewrite " + o.rewrite.type);
  return job;
}

// Prints the file names, and all targets if there are several. The rest of a summary covers only the first target.
void print_head(const ConvertOptions& options) {
  print(fmt::format("{} -> {}\n", escaped(options.network), escaped(options.model)));
  if (options.targets.size() > 1) print(fmt::format("  targets  {}\n", fmt::join(options.targets, ", ")));
}

void print_training_summary(const ConvertOptions& options, const TrainingModel& made, const LoadedModel& model) {
  const TrainingMemory m = training_memory(model, *find_machine("host"));
  if (options.json)
    return print_json({{"network", options.network},
                       {"model", options.model},
                       {"targets", options.targets},
                       {"file_bytes", made.bytes.size()},
                       {"state_bytes", m.state()},
                       {"arena_bytes", m.arena},
                       {"liveness_bound", m.bound},
                       {"total", m.total()},
                       {"not_trained", made.not_trained},
                       {"frozen", frozen_json(made.frozen)},
                       {"fallbacks", made.gradients.fallbacks},
                       {"log", log_json(made.gradients.log)}});
  print_head(options);
  const std::pair<const char*, const Graph*> programs[] = {
      {"infer", &made.infer}, {"gradients", &made.gradients}, {"update", &made.update}, {"derive", &made.derive}};
  for (const auto& [name, graph] : programs)
    if (!graph->nodes.empty()) print(fmt::format("  {:<10} {}\n", name, counted(graph->nodes.size(), "step")));
  print(fmt::format("  state      {} bytes, of them parameters {}\n", grouped(m.state()), grouped(m.parameters)));
  for (const std::string& line : untrained_lines(made.frozen, made.not_trained)) print(fmt::format("  {}\n", line));
  print(fmt::format("  arena      {} bytes (liveness lower bound {})\n", grouped(m.arena), grouped(m.bound)));
  if (made.rematerialized.steps > 0)
    print(fmt::format("  again      {} computed a second time: {} of {} multiply-accumulates more\n",
                      counted(made.rematerialized.steps, "step"), grouped(made.rematerialized.work),
                      grouped(made.rematerialized.work_before)));
  print(fmt::format("  training   {} bytes of RAM in all: nacre size --train {}\n", grouped(m.total()), options.model));
  print(fmt::format("  file       {} bytes\n", grouped(made.bytes.size())));
  print(fallbacks_text(made.gradients.fallbacks));
}

void print_summary(const ConvertOptions& options, const Graph& graph, const LoadedModel& model, const Sizes& sizes) {
  const Statistics s = statistics(model, 0);
  print_head(options);
  print(fmt::format("  layers   {} ({})\n", s.layers, counted(s.steps, "step")));
  print(fmt::format("  MACs     {}{}\n", grouped(s.multiply_accumulates),
                    s.batch > 1 ? fmt::format(" for a batch of {}", s.batch) : ""));
  print(fmt::format("  weights  {} bytes\n", grouped(s.weight_bytes)));
  print(fmt::format("  arena    {} bytes (liveness lower bound {})\n", grouped(s.arena_bytes),
                    grouped(s.liveness_bound)));
  if (s.banks.size() > 1)
    for (const BankUse& bank : s.banks) print(fmt::format("    {:<7}{} bytes\n", bank.name, grouped(bank.bytes)));
  print(patches_summary(graph, target_of(options, options.targets[0])));
  if (sizes.bytes[kScratch] > 0) print(fmt::format("  scratch  {} bytes\n", grouped(sizes.bytes[kScratch])));
  if (options.golden > 0) print(fmt::format("  golden   {}\n", counted(options.golden, "pair")));
  print(fmt::format("  file     {} bytes\n", grouped(s.file_bytes)));
  print(fallbacks_text(graph.fallbacks));
  print(kept_weights_text(kept_weights(model, 0), widened_weights(graph)));
}

void print_summary_json(const Work& work, const Graph& graph, const Statistics& s, const LoadedModel& model) {
  const ConvertOptions& options = work.options;
  Json banks = Json::array();
  for (const BankUse& bank : s.banks) banks.push_back({{"name", bank.name}, {"bytes", bank.bytes}});
  Json metadata = Json::object();
  for (const auto& [key, value] : model.metadata()) metadata[key] = value;
  Json summary = {{"network", options.network},
                  {"model", options.model},
                  {"targets", options.targets},
                  {"layers", s.layers},
                  {"steps", s.steps},
                  {"batch", s.batch},
                  {"multiply_accumulates", s.multiply_accumulates},
                  {"weight_bytes", s.weight_bytes},
                  {"arena_bytes", s.arena_bytes},
                  {"liveness_bound", s.liveness_bound},
                  {"banks", banks},
                  {"file_bytes", s.file_bytes},
                  {"golden", options.golden},
                  {"fallbacks", graph.fallbacks},
                  {"kept_weights", kept_weights(model, 0)},
                  {"widened_weights", widened_weights(graph)},
                  {"log", log_json(graph.log)},
                  {"metadata", metadata}};
  if (work.explained.is_object()) summary["rewrite"] = work.explained;
  for (const auto& [layer, db] : work.damaged) summary["damaged_layers"].push_back({{"layer", layer}, {"sqnr_db", db}});
  if (graph.patches) summary["patches"] = patches_json(graph, target_of(options, options.targets[0]));
  if (work.tried) summary["tune"] = places_json(graph, *work.tried);
  print_json(summary);
}

void emit_policy(Work& work, const PolicyRequest& request, const Graph& graph) {
  if (work.policy_file.path.empty()) return;
  const Json policies = work.policy_file.keras ? keras_policies_json(graph, request) : policy_json(graph, request);
  work.policy = policies.dump(2) + "\n";
}

// Checks options before any work: an answer to a typing error should not take a minute.
void require_output(const ConvertOptions& options) {
  for (auto name = options.targets.begin(); name != options.targets.end(); ++name)
    if (std::find(options.targets.begin(), name, *name) != name)
      throw Error(kUsage, "--target", "names " + *name + " twice", "leave one of them out");
  if (!options.model.empty()) require_directory_of(options.model);
  if (options.model.empty() && options.stop_after.empty() && !options.rewrite.explain && options.emit_policy.empty())
    throw Error(kUsage, "convert", "no model file was named",
                "add -o MODEL, or --stop-after PASS to see the graph only");
  if (options.tune) require_xnnpack("--tune");
}

// Names the layers whose values int8 codes change most. The samples are inputs of the network itself, so a model with
// other inputs (a front end, or the types of its policy) is not judged.
void judge_codes(Work& work, const LoadedModel& model) {
  const bool own_inputs = work.options.front_end.network.empty() && work.options.io_types == IoTypes::kSource;
  if (!work.calibrated || !own_inputs) return;
  constexpr size_t kMost = 5;
  work.damaged = damaged_layers(*work.calibrated, model, work.few, work.calibration);
  for (size_t i = 0; i < std::min(kMost, work.damaged.size()); ++i)
    warn(fmt::format("policy: {0}: int8/static is {1:.1f} dB from its float32 values, below {2:.0f}: --set {0}=float32",
                     work.damaged[i].layer, work.damaged[i].sqnr_db, kDamageBound));
  if (work.damaged.size() > kMost)
    warn(fmt::format("policy: and {} more, which nacre compare lists", counted(work.damaged.size() - kMost, "layer")));
}

// Notes how many steps of a microcontroller run on reference kernels because of --rounding, at most. Its fast kernels
// that round integers do so by the rule "double" alone, and some of these steps they would refuse under that rule too.
void note_rounding(const ConvertOptions& options, const LoadedModel& model) {
  for (uint32_t i = 0; i < options.targets.size(); ++i) {
    const std::string& target = options.targets[i];
    if (options.rounding == Rounding::kDouble || !is_microcontroller(target)) continue;
    std::set<Op> fast;
    for (const ListedKernel& kernel : kernels_of_set(set_of_target(target)))
      if (kernel.entry->rounding == Rounding::kDouble) fast.insert(kernel.entry->op);
    const std::vector<std::string> kernels = step_kernels(model, i, target);
    const uint32_t first = model.model().program(i).first_step;
    uint64_t slow = 0;
    for (uint32_t step = 0; step < kernels.size(); ++step) {
      const StepRecord& record = model.model().steps()[first + step];
      slow += is_reference(kernels[step]) && record.rounding != Rounding::kNone && fast.contains(record.op);
    }
    if (slow > 0)
      note(fmt::format("{}: up to {} of {} run reference kernels because of their rounding: {} has fast ones", target,
                       slow, counted(kernels.size(), "step"), option("rounding", "double")));
  }
}

// Returns the place of each step (what runs it: place_option.h), or none by default. With --tune measures them.
std::vector<uint8_t> choose_places(Work& work, const Graph& graph) {
  const ConvertOptions& options = work.options;
  if (!options.tune && options.place.empty()) return {};  // the target's default
  if (!options.tune) return parse_places(options.place, graph.nodes.size());
  const std::vector<const KernelSet*> kernels = kernels_of_target(options.targets[0]);
  const auto write = [&](std::span<const uint8_t> places) {
    const ProgramSource source = {.graph = &graph, .kernels = kernels, .places = places};
    return write_model({&source, 1});
  };
  work.tried = try_places(write, graph.nodes.size(), options.threads, options.network);
  return work.tried->places;
}

std::vector<Target> other_targets(const ConvertOptions& options) {
  std::vector<Target> targets;
  for (const std::string& name : std::span(options.targets).subspan(1)) targets.push_back(target_of(options, name));
  return targets;
}

void write(Work& work, Graph& graph) {
  const ConvertOptions& options = work.options;
  const std::vector<uint8_t> places = choose_places(work, graph);
  ConvertOptions again = options;  // options that give the same bytes without measuring
  again.place = places_text(places);
  add_metadata(graph, again);
  std::vector<ProgramSource> sources = {{.graph = &graph, .places = places}};
  for (const Graph& other : work.others) sources.push_back({.graph = &other});
  std::vector<std::vector<const KernelSet*>> kernels;
  for (const std::string& target : options.targets) kernels.push_back(kernels_of_target(target));
  for (size_t i = 0; i < sources.size(); ++i) sources[i].target = options.targets[i], sources[i].kernels = kernels[i];
  WriteOptions writing = {.names = !options.strip_names, .golden = {}};
  std::vector<uint8_t> bytes = write_model(sources, writing);
  if (options.golden > 0) {
    const auto host = std::ranges::find(options.targets, "host");
    const auto program = host == options.targets.end() ? 0 : uint32_t(host - options.targets.begin());
    writing.golden = make_golden(LoadedModel(bytes, options.network, kReportDefect), program, options.golden);
    bytes = write_model(sources, writing);
  }
  const LoadedModel model(bytes, options.network, kReportDefect);
  const Sizes sizes = measure(model, 0);
  judge_codes(work, model);
  note_rounding(options, model);
  SideFiles beside;
  write_checked(options.model, bytes, options.network);
  if (!work.policy.empty()) beside.write(work.policy_file.path, work.policy);
  if (options.json) print_summary_json(work, graph, statistics(model, 0), model);
  else print_summary(options, graph, model, sizes);
  if (work.tried && !options.json) print("\n" + places_table(graph, *work.tried, terminal_width()));
  beside.require_written(options.model + " is written");
}

// Compiles the graph for the targets after the first. `graph` is the state before the first stage that depends on the
// target.
void compile_others(Work& work, const Job& first, const Graph& graph) {
  if (work.options.model.empty() || !work.options.stop_after.empty()) return;
  for (const Target& target : other_targets(work.options)) {
    Job job = first;
    job.compiling.target = target;
    work.others.push_back(graph);
    run_stages(work.others.back(), job, Stage::kFuse, Stage::kPlanMemory);
  }
}

// Makes a training model from the graph after the stage calibrate, and writes it if -o names a file.
void write_training(const ConvertOptions& options, const CompileOptions& compiling, Graph& graph) {
  add_metadata(graph, options);
  const PolicyLossScale policies =
      loss_scale_of_policies(graph, compiling.policies, options.training.loss_scale != "auto");
  const TrainingOptions training = parse_training(options.training, policies);
  if (const std::string line = loss_scale_note(options.training, policies); !line.empty()) note(line);
  const TrainingModel made = compile_training(graph, training, compiling, {.names = !options.strip_names, .golden = {}},
                                              other_targets(options));
  require_arena_limit(made, training);
  require_batch_norm(made, training);
  if (training.seed != TrainingOptions().seed && !draws(made, training))
    throw Error(kUsage, "--seed", "draws dropout and adapters, and there are none", "remove " + option("seed"));
  for (const Graph* program : {&made.infer, &made.gradients, &made.update, &made.derive}) {
    if (program->nodes.empty()) continue;
    for (const std::string& line : program->log)
      if (options.verbose || line.starts_with("policy")) note(line);
    if (options.dump) print(dump(*program));
  }
  for (const TrainingPrograms& other : made.others)
    for (const Graph* program : {&other.infer, &other.gradients, &other.update, &other.derive})
      if (options.dump && !program->nodes.empty()) print(dump(*program));
  if (options.model.empty()) return;
  const LoadedModel model(made.bytes, options.network, kReportDefect);
  write_checked(options.model, made.bytes, options.network);
  print_training_summary(options, made, model);
}

}  // namespace

void convert(const ConvertOptions& options) {
  require_output(options);
  Work work{options, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  if (!options.emit_policy.empty()) {
    work.policy_file = policy_output(options.emit_policy);
    require_directory_of(work.policy_file.path);
  }
  Job job = job_of(work);
  Graph graph;
  if (trains(work)) {
    run_stages(graph, job, Stage::kImport, Stage::kSimplify);
    print_log(graph.log, options.verbose);  // the programs' logs continue this one
    run_stages(graph, job, Stage::kResolvePolicies, Stage::kCalibrate);
    return write_training(options, job.compiling, graph);
  }
  const Stage last = options.stop_after.empty() ? Stage::kPlanMemory : *stage_named(options.stop_after);
  run_stages(graph, job, Stage::kImport, last, [&](Stage stage, const Graph& made) {
    if (stage == Stage::kResolvePolicies) emit_policy(work, job.compiling.policies, made);
    if (stage == Stage::kJoinFrontEnd) compile_others(work, job, made);
  });
  print_log(graph.log, options.verbose);
  if (work.explained.is_string()) print(work.explained.get<std::string>());
  if (options.dump || !options.stop_after.empty()) print(dump(graph));
  for (const Graph& other : work.others)
    if (options.dump) print(dump(other));
  if (!options.model.empty() && options.stop_after.empty()) return write(work, graph);
  if (!work.policy.empty()) write_file_whole(work.policy_file.path, work.policy);
  if (work.explained.is_object()) print_json(work.explained);
}

}  // namespace nacre::tools

#include "tools/commands/inspect/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/print.h"
#include "tools/base/table.h"
#include "tools/base/unsupported.h"
#include "tools/commands/tune/lines.h"
#include "tools/compile/compile.h"
#include "tools/compile/training.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/trained_constants.h"
#include "tools/importers/shared/network_summary.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {
namespace {

// Result of a conversion in memory.
struct DryRun {
  std::vector<std::string> unsupported;
  // Facts of a network that converts: the log of its changes, its inputs and outputs, and statistics of its program
  // for this machine in the network's own policies.
  std::vector<std::string> log = {};
  std::vector<NetworkTensor> inputs = {}, outputs = {};
  std::optional<Statistics> model = {};
  uint64_t hybrid = 0;  // layers whose int8 weights the file has, and whose inputs are rounded to int8 at run time
  // For a training of all layers: what its file freezes, what no step reads as a parameter, and what trains.
  FrozenLayers frozen = {};
  std::vector<std::string> not_trained = {};
  std::vector<TrainedConstant> trained = {};
};

std::vector<NetworkTensor> tensors_of(const Graph& graph, const std::vector<Binding>& bindings) {
  std::vector<NetworkTensor> tensors;
  for (const Binding& b : bindings) {
    const Value& v = graph.values[size_t(b.value)];
    tensors.push_back({b.name, name_of(v.type), dims_text(v.dims)});
  }
  return tensors;
}

bool is_hybrid(const Layer& layer) { return layer.policy.quantization == Quantization::kInt8Dynamic; }

// Collects what a training would change. A network that cannot be trained is not refused here.
void look_at_training(std::span<const uint8_t> bytes, const InspectOptions& options, DryRun& run) {
  const ImportOptions importing = {
      .batch = options.converting.batch, .shapes = options.converting.shapes, .train = true};
  try {
    const Graph graph = load_network(bytes, options.model, importing, kSimplifyToTrain);
    run.frozen = frozen_layers(graph);
    run.not_trained = untrained_constants(graph, {});
    run.trained = trained_constants(graph, {});
  } catch (const Error&) {
  }
}

DryRun convert_in_memory(std::span<const uint8_t> bytes, const InspectOptions& options) {
  const ConvertOptions& converting = options.converting;
  const ImportOptions importing = {.batch = converting.batch,
                                   .io_nhwc = converting.io_nhwc,
                                   .shapes = converting.shapes,
                                   .ignored = converting.ignored};
  try {
    CompileOptions compiling;
    compiling.target.kernels = kernels_of_target(compiling.target.name);
    const Compiled made = compile(load_network(bytes, options.model, importing, {}), compiling);
    const LoadedModel model(made.bytes, options.model, kReportDefect);
    DryRun run = {.unsupported = {},
                  .log = made.graph.log,
                  .inputs = tensors_of(made.graph, made.graph.inputs),
                  .outputs = tensors_of(made.graph, made.graph.outputs),
                  .model = statistics(model, 0),
                  .hybrid = uint64_t(std::ranges::count_if(made.graph.layers, is_hybrid))};
    look_at_training(bytes, options, run);
    return run;
  } catch (const Unsupported& error) {
    return {.unsupported = error.things};
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    return {.unsupported = {without_file(error.what(), options.model)}};
  }
}

Json tensors_json(const std::vector<NetworkTensor>& tensors) {
  Json all = Json::array();
  for (const NetworkTensor& t : tensors) all.push_back({{"name", t.name}, {"type", t.type}, {"shape", t.shape}});
  return all;
}

Json network_json(const std::string& path, const NetworkSummary& network, const DryRun& run) {
  Json json = {{"network", path},
               {"format", network.format},
               {"producer", network.producer},
               {"version", network.version},
               {"inputs", tensors_json(network.inputs)},
               {"outputs", tensors_json(network.outputs)},
               {"operators", network.operators},
               {"parameters", network.parameters},
               {"converts", run.unsupported.empty()},
               {"unsupported", run.unsupported}};
  if (!run.model) return json;
  json["model"] = {{"layers", run.model->layers},
                   {"steps", run.model->steps},
                   {"batch", run.model->batch},
                   {"multiply_accumulates", run.model->multiply_accumulates},
                   {"weight_bytes", run.model->weight_bytes},
                   {"arena_bytes", run.model->arena_bytes},
                   {"hybrid_layers", run.hybrid}};
  json["training"] = {
      {"frozen", frozen_json(run.frozen)}, {"not_trained", run.not_trained}, {"trained", trained_json(run.trained)}};
  json["log"] = log_json(run.log);
  return json;
}

void print_tensors(const char* kind, const std::vector<NetworkTensor>& tensors) {
  for (const NetworkTensor& t : tensors)
    print(fmt::format("{:<12}{}  {}{}{}\n", kind, printable(t.name), t.type, t.shape.empty() ? "" : " ",
                      printable(t.shape)));
}

void print_network(const std::string& path, const NetworkSummary& network, const DryRun& run) {
  std::string head = network.format;
  for (const std::string* part : {&network.version, &network.producer})
    if (!part->empty()) head += ", " + printable(*part);
  print(fmt::format("{:<12}{}: {}\n", "network", escaped(path), head));
  print_tensors("input", network.inputs);
  print_tensors("output", network.outputs);
  print(fmt::format("{:<12}{}\n", "parameters", grouped(network.parameters)));
  if (run.model) {
    print(fmt::format("{:<12}{}{}\n", "MACs", grouped(run.model->multiply_accumulates),
                      run.model->batch > 1 ? fmt::format(" for a batch of {}", run.model->batch) : ""));
    print(fmt::format("{:<12}{}, {}, weights {} bytes, arena {} bytes\n", "model", counted(run.model->layers, "layer"),
                      counted(run.model->steps, "step"), grouped(run.model->weight_bytes),
                      grouped(run.model->arena_bytes)));
    if (run.hybrid > 0)
      print(fmt::format("{:<12}int8 in {} of {} (hybrid: their inputs are rounded to int8 at run time)\n", "weights",
                        run.hybrid, counted(run.model->layers, "layer")));
    for (const std::string& line : untrained_lines(run.frozen, run.not_trained))
      print(fmt::format("{:<12}{}\n", "training", printable(line)));
    if (!run.trained.empty())
      for (const std::string& line : trained_lines(run.trained))
        print(fmt::format("{:<12}{}\n", "training", printable(line)));
    print(fmt::format("{:<12}{}: --json has them, and nacre convert --verbose\n", "log",
                      counted(run.log.size(), "line")));
  }
  Table table({{"operator", Align::kLeft, 16}, {"nodes", Align::kRight}});
  for (const auto& [name, count] : network.operators) table.add({printable(name), grouped(count)});
  print("\n" + table.text(terminal_width()));
  if (run.unsupported.empty()) return print("\nit converts: everything in it is supported\n");
  print("\nnot supported:\n");
  for (const std::string& thing : run.unsupported) print("  " + escaped(thing, true) + "\n");
}

}  // namespace

void inspect_network(const InspectOptions& options) {
  const std::vector<uint8_t> bytes = read_network(options.model);
  NetworkSummary network = summarize_network(bytes, options.model);
  const DryRun run = convert_in_memory(bytes, options);
  // A Keras file does not state its outputs' types.
  const auto is_untyped = [](const NetworkTensor& tensor) { return tensor.type.empty(); };
  if (network.inputs.empty()) network.inputs = run.inputs;
  if (run.model && std::ranges::any_of(network.outputs, is_untyped)) network.outputs.clear();
  if (network.outputs.empty()) network.outputs = run.outputs;
  if (options.json) print_json(network_json(options.model, network, run));
  else print_network(options.model, network, run);
  const size_t count = run.unsupported.size();
  if (count > 0)
    throw Error(kUnsupported, options.model,
                counted(count, "thing") + (count == 1 ? " is" : " are") + " not supported");
}

}  // namespace nacre::tools

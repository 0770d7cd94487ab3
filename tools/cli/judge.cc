#include <memory>
#include <optional>

#include "tools/cli/cli.h"
#include "tools/commands/compare/compare.h"
#include "tools/commands/eval/eval.h"
#include "tools/commands/report/report.h"
#include "tools/commands/search/search.h"
#include "tools/importers/importer.h"
#include "tools/passes/memory/plan_memory.h"
#include "tools/policies/policy_language.h"

namespace nacre::tools {
namespace {

constexpr const char* kMetrics = "top1, topK, accuracy, auc, mse, mae";

void add_indices(Command& c, std::string& indices) {
  c.reads(c.add_option("--indices", indices, "only these samples: .npy of numbers, or a bool for each sample")
              ->type_name("FILE"));
}

void add_set(Command& c, SetOptions& set, bool required) {
  CLI::Option* data =
      c.add_option("--data", set.data, "samples: .npz with an array per input, or .npy for the only one");
  CLI::Option* labels = c.add_option("--labels", set.labels, "a label per sample, or target arrays for mse: .npy");
  c.reads(data->required(required)->type_name("FILE"));
  c.reads(labels->required(required)->type_name("FILE"));
  add_indices(c, set.indices);
  c.add_option("--metric", set.metric, std::string(kMetrics) + " [top1]")->type_name("METRIC");
}

void add_judged_output(Command& c, std::string& output) {
  c.add_option("--judge", output, "the output that is judged, if there are several")
      ->check(not_empty())
      ->type_name("OUTPUT");
}

void add_judged_target(Command& c, std::string& target) {
  c.add_option("--target", target, "target of the programs to run, if there are several")
      ->check(not_empty())
      ->type_name("TARGET");
}

// Returns the file that the option's value names; no file for "-", which means standard output.
std::vector<std::string> file_or_output(const std::string& value) {
  return value == "-" ? std::vector<std::string>() : std::vector<std::string>{value};
}

// Adds the limits of a model: --max-bytes and --max-time-us.
void add_limits(Command& c, std::optional<uint64_t>& bytes, const std::string& of_bytes, std::optional<double>& time_us,
                const std::string& of_time) {
  const auto take = [&bytes](const std::string& text) { bytes = parse_bytes("--max-bytes", text); };
  c.add_option_function<std::string>("--max-bytes", take, of_bytes + "; with K, M")->type_name("BYTES");
  c.add_option("--max-time-us", time_us, of_time)->type_name("T");
}

}  // namespace

void add_compare(CLI::App& app) {
  auto o = std::make_shared<CompareOptions>();
  Command& c = add_command(app, "compare", "two models on the same data: the error of every layer and of the outputs");
  c.footer(
      "Examples:\n"
      "  nacre compare kws_float.nacre kws_int8.nacre --data samples.npz\n"
      "  nacre compare a.nacre b.nacre --data x.npy --sort execution --csv errors.csv\n"
      "Layers are matched by the names of the network they came from. SQNR = 10 log10(sum a^2 / sum (a - b)^2); "
      "relative is\n"
      "the largest error over A's largest magnitude. Where A takes float32 and B int8, B gets A's data through its "
      "scale.\n"
      "Errors add up from layer to layer: test a suspect by nacre convert --set NAME=float32, one layer at a time.");
  c.reads(c.add_option("A", o->a, "the reference, made by nacre convert")->required()->type_name(""));
  c.reads(c.add_option("B", o->b, "the model to judge")->required()->type_name(""));
  c.reads(c.add_option("--data", o->data,
                       ".npz with an array per input, or .npy for the only one; samples stacked on axis 0")
              ->required()
              ->type_name("FILE"));
  add_indices(c, o->indices);
  c.add_option("--sort", o->sort, "order of the layers: worst SQNR, or largest relative error, first [damage]")
      ->check(one_of({"damage", "execution", "error"}))
      ->type_name("damage|execution|error");
  c.writes(
      c.add_option("--csv", o->csv, "file for the table, every digit of it; -: standard output")->type_name("FILE"),
      file_or_output);
  add_judged_target(c, o->target);
  add_running(c, o->running);
  add_cast(c, o->cast_inputs);
  add_json(c, o->json);
  c.only_when({"--json"}, [o] { return o->csv != "-"; },
              {"cannot go with --csv -, which is all that is printed", "leave one of them out"});
  c.runs([o] { compare(*o); });
}

void add_eval(CLI::App& app) {
  auto o = std::make_shared<EvalOptions>();
  Command& c = add_command(app, "eval", "models on a labelled set, side by side: accuracy, bytes, time");
  c.footer(
      "Examples:\n"
      "  nacre eval float.nacre int8.nacre --data x.npy --labels y.npy --max-drop 0.01\n"
      "  nacre eval ad.nacre --data windows.npy --labels anomalous.npy --metric auc\n"
      "Drops are against the first model. auc: of an autoencoder the mean squared error of each sample is its score.\n"
      "--max-bytes and --max-time-us are limits of each model but the first, or of the only one.\n"
      "Exit code 1 where a model exceeds a limit.");
  c.reads(c.add_option("MODEL", o->models, "models, made by nacre convert")->required()->type_name("..."));
  add_set(c, o->set, true);
  add_judged_output(c, o->output);
  c.add_option("--max-drop", o->max_drop,
               "fail where a model is worse than the first by more; 0.01: a point of accuracy")
      ->type_name("D");
  add_limits(c, o->max_bytes, "fail where a model's file is larger", o->max_time_us,
             "fail where a model's median per sample is above T microseconds");
  add_judged_target(c, o->target);
  add_running(c, o->running);
  add_cast(c, o->cast_inputs);
  add_json(c, o->json);
  c.only_when({"--max-drop"}, [o] { return o->models.size() > 1; },
              {"is against the first model, and there is no other", "name a second model"});
  c.runs([o] { eval(*o); });
}

void add_search(CLI::App& app) {
  auto o = std::make_shared<SearchOptions>();
  Command& c = add_command(app, "search", "the policy map that makes a network smallest within limits, by measuring");
  c.footer(
      "Example:\n"
      "  nacre search digits.onnx --data x.npy --labels y.npy --max-drop 0 -o map.json\n"
      "  nacre convert digits.onnx --policy-file map.json -o digits.nacre\n"
      "Measures each layer under each policy alone, proposes maps, and measures those. int4_from_float32 and\n"
      "gptq/4/-1_from_float32 may make smaller files: name them with --policies.");
  c.reads(c.add_option("NETWORK", o->network, "the network's file")->required()->type_name(""), files_of_network);
  add_shapes(c, o->shapes);
  add_ignored(c, o->ignored);
  add_set(c, o->set, true);
  add_judged_output(c, o->output);
  c.reads(c.add_option("--calibrate", o->calibrate,
                       "samples for int8/static, float8, gptq and awq [some of --data, which are then not judged]")
              ->type_name("DATA"));
  c.add_option("--policies", o->policies,
               "policies to choose from; the first is the reference [" + CLI::detail::join(o->policies, ",") + "]")
      ->delimiter(',')
      ->type_name("POLICY,...");
  c.add_option("--max-drop", o->max_drop,
               "largest drop in units of the metric: with 450 samples 0.0023 allows one more wrong [0]")
      ->type_name("D");
  add_limits(c, o->max_bytes, "most bytes of the model file that nacre convert makes of the map", o->max_time_us,
             "most microseconds for a sample, as median, on this machine with these --kernels");
  add_number(c, "--budget", o->budget, 1, 1'000'000, "models that are compiled and run, at most [200]");
  c.writes(c.add_option("-o,--output", o->map, "the policy file to write")->type_name("FILE"));
  add_running(c, o->running);
  add_cast(c, o->cast_inputs);
  add_json(c, o->json);
  c.runs([o] {
    o->policies = whole_policies(o->policies);
    search(*o);
  });
}

void add_report(CLI::App& app) {
  auto o = std::make_shared<ReportOptions>();
  Command& c = add_command(app, "report", "models side by side, or a network under several policies, as one HTML page");
  c.footer(
      "Examples:\n"
      "  nacre report float.nacre int8.nacre --data x.npy --labels y.npy -o report.html\n"
      "  nacre report float.nacre int8.nacre --profile -o report.html          with the time of each layer\n"
      "  nacre report net.onnx --policies float32,int8_from_float32,int8/static_from_float32 --data x.npy --labels "
      "y.npy "
      "-o report.html");
  c.reads(c.add_option("MODEL", o->models, "models, made by nacre convert, the first is the reference; or a network")
              ->required()
              ->type_name("..."));
  const std::vector<std::string> of_network = {"--policies", "--shape", "--ignore-setting", "--calibrate"};
  c.add_option("--policies", o->policies, "policies to compile a network under; the first is the reference")
      ->delimiter(',')
      ->type_name("POLICY,...");
  add_shapes(c, o->shapes);
  add_ignored(c, o->ignored);
  add_set(c, o->set, false);
  c.reads(c.add_option(
               "--calibrate", o->calibrate,
               "samples for int8/static, float8, gptq and awq of a network [some of --data, which are then not judged]")
              ->type_name("DATA"));
  add_judged_output(c, o->output);
  c.writes(c.add_option("-o,--output", o->html, "the page to write")->required()->type_name("FILE"));
  add_judged_target(c, o->target);
  add_cast(c, o->cast_inputs);
  c.add_flag("--profile", o->profile, "also the time of each layer on this machine, and the kernels that run it");
  c.add_flag("--no-latency", o->no_latency,
             "leave out the latency of the judged models, so that equal models give equal pages");
  add_running(c, o->running);
  add_json(c, o->json);
  c.only_with({"--kernels", "--threads"}, {"--profile", "--data"},
              {"is about runs, and nothing is run", "add --profile, or --data FILE"});
  c.only_with({"--labels", "--indices", "--cast-inputs"}, {"--data"},
              {"is about samples, and there are none", "add --data FILE"});
  c.only_with({"--metric", "--judge"}, {"--labels"},
              {"is about a score, and nothing is scored without labels", "add --labels FILE"});
  c.only_with({"--no-latency"}, {"--labels"},
              {"is about the latency of judged models, and none is judged without labels", "leave it out"});
  c.not_with({"--no-latency"}, {"--profile"},
             {"cannot go with --profile, which asks for latencies", "leave one of them out"});
  c.only_when(of_network, [o] { return o->models.size() == 1 && is_network(o->models.front()); },
              {"is about a network, and this is a model", "leave it out, or name the network that it was made of"});
  c.runs([o] {
    o->policies = whole_policies(o->policies);
    report(*o);
  });
}

}  // namespace nacre::tools

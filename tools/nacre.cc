// The command `nacre`: options become structs, commands do the work (tools/commands), one Error becomes one sentence.
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/cli.h"
#include "tools/commands/check.h"
#include "tools/commands/inspect.h"
#include "tools/commands/kernels.h"
#include "tools/commands/run.h"
#include "tools/commands/size.h"
#include "tools/error.h"
#include "tools/version.h"

namespace nacre::tools {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 bad input, 4 not supported, 5 reading or writing failed.\n"
    "Every file is written whole or not at all. Each command has its own --help with an example.\n"
    "Environment: NACRE_PROGRESS_MS, how long a line of progress on a terminal waits [500]; 0: every step is shown.";

void add_inspect(CLI::App& app) {
  auto o = std::make_shared<InspectOptions>();
  CLI::App& c = *app.add_subcommand("inspect", "what is in a model file: layers, types, policies, costs, memory");
  c.footer(
      "Examples:\n"
      "  nacre inspect kws.nacre --steps\n"
      "  nacre inspect kws.nacre --svg kws.svg                  the graph and its memory plan as a picture\n"
      "Names are shortened to fit the terminal; --json has them whole, with every step, operand and tensor.");
  add_model(c, o->model);
  c.add_flag("--steps", o->steps, "also one line per step");
  c.add_option("--svg", o->svg, "picture to write");
  c.add_option("--target", o->target, "of several programs, the one to draw");
  add_json(c, o->json);
  c.callback([o] { inspect(*o); });
}

void add_size(CLI::App& app) {
  auto o = std::make_shared<SizeOptions>();
  CLI::App& c = *app.add_subcommand("size", "every byte that running a model takes: exactly what bind asks for");
  c.footer("Examples:\n  nacre size kws.nacre --target arm/m4\n  nacre size digits_train.nacre --train");
  add_model(c, o->model);
  add_target(c, o->target, "the machine [host]");
  c.add_flag("--train", o->train, "what training takes, by what it is for");
  add_json(c, o->json);
  c.callback([o] { size(*o); });
}

void add_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  CLI::App& c = *app.add_subcommand("run", "run a model on inputs from files");
  c.footer(
      "Examples:\n"
      "  nacre run kws.nacre --input input=features.npy --output out\n"
      "  nacre run kws.nacre --seed 1 --repeat 100              time it on random inputs\n"
      "A .npy must have the input's type and shape, or samples of it stacked on axis 0, which run one after another;\n"
      "a .bin holds the elements alone, little-endian. Times are of single runs; inputs are copied outside of them.");
  add_model(c, o->model);
  c.add_option("--input", o->inputs.files, "NAME=FILE.npy or NAME=FILE.bin, one per input")
      ->allow_extra_args(false)
      ->type_name("NAME=FILE");
  add_number(c, "--seed", o->inputs.seed, 0, UINT64_MAX, "random numbers for inputs without a file");
  c.add_option("--output", o->output, "directory for the outputs, each as NAME.npy")->type_name("DIR");
  add_number(c, "--repeat", o->repeat, 1, 100'000'000, "run every sample N times, to time a program for this machine [1]");
  c.add_option("--all-tensors", o->all_tensors, "directory for every tensor, as STEP_NAME.npy, and index.json")
      ->type_name("DIR");
  c.add_flag("--quantize-inputs", o->inputs.quantize,
             "turn float32 files into codes by the input's scale, or round them to its float type");
  c.add_flag("--dequantize-outputs", o->dequantize_outputs, "give int8 outputs as float32, by their scale");
  c.add_flag("--cast-inputs", o->inputs.cast, "change the type of numbers, where none changes by it");
  add_target(c, o->target, "of several programs, the one for this target");
  add_json(c, o->json);
  c.callback([o] { run(*o); });
}

void add_check(CLI::App& app) {
  auto o = std::make_shared<CheckOptions>();
  CLI::App& c = *app.add_subcommand("check", "verify a model file: structure, weights, plan, golden pairs");
  c.footer("Example:\n  nacre check kws.nacre\nExit code 1 where a golden pair differs.");
  add_model(c, o->model);
  add_json(c, o->json);
  c.callback([o] { check_model(*o); });
}

void add_kernels(CLI::App& app) {
  auto o = std::make_shared<KernelsOptions>();
  CLI::App& c = *app.add_subcommand("kernels", "the kernels a model needs, as a header for firmware");
  c.footer("Example:\n  nacre kernels kws.nacre -o model_kernels.h");
  add_model(c, o->model);
  c.add_option("-o,--output", o->header, "the header to write [standard output]")->type_name("FILE");
  c.callback([o] { kernels(*o); });
}

// Wrong usage as one sentence, with the command's own help as the remedy.
int refuse_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  const std::string command = used.empty() ? "nacre" : "nacre " + used.front()->get_name();
  fmt::print(stderr, "{}: {}\n    see: {} --help\n", used.empty() ? "nacre" : "nacre: " + used.front()->get_name(),
             error.what(), command);
  return kUsage;
}

// What was printed may still be in a buffer: a full disk shows here.
int flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kSuccess;
  fmt::print(stderr, "nacre: standard output: cannot be written: {}\n", std::strerror(errno));
  return kIo;
}

int run_tool(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files shows as a failed write
  CLI::App app("Converts neural networks into model files that run in the caller's memory, and runs them.", "nacre");
  app.footer(kExitCodes);
  app.set_version_flag("--version", fmt::format("nacre {}", kVersion));
  app.require_subcommand(0, 1);
  add_convert(app);
  add_inspect(app);
  add_size(app);
  add_run(app);
  add_check(app);
  add_compare(app);
  add_eval(app);
  add_search(app);
  add_tune(app);
  add_export(app);
  add_report(app);
  add_policies(app);
  add_kernels(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw Error(kUsage, "command", "none was given", "see: nacre --help");
    return flush_output();
  } catch (const CLI::Success& help) {
    app.exit(help);
    return flush_output();
  } catch (const CLI::ParseError& error) {
    return refuse_usage(app, error);
  } catch (const Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "nacre: {}\n", error.what());
    return error.code;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "nacre: memory: this machine has not enough for that\n");
    return kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nacre: internal error: {}\n    report it with the command and its files\n", error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace nacre::tools

int main(int argc, char** argv) { return nacre::tools::run_tool(argc, argv); }

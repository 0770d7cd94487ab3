#include <algorithm>
#include <memory>
#include <utility>

#include "tools/cli/cli.h"
#include "tools/cli/option_table.h"
#include "tools/commands/bench/bench.h"
#include "tools/commands/check.h"
#include "tools/commands/convert/options.h"
#include "tools/commands/doctor/doctor.h"
#include "tools/commands/firmware/firmware.h"
#include "tools/commands/inspect/inspect.h"
#include "tools/commands/kernels/kernels.h"
#include "tools/commands/run/run.h"
#include "tools/commands/size/size.h"
#include "tools/importers/importer.h"

namespace nacre::tools {

void add_inspect(CLI::App& app) {
  auto o = std::make_shared<InspectOptions>();
  Command& c =
      add_command(app, "inspect",
                  "what is in a model file: layers, types, policies, costs, memory; or in a network's file, and "
                  "all in it that is not supported");
  c.footer(
      "Examples:\n"
      "  nacre inspect kws.nacre --steps                        each with the kernel that runs it here\n"
      "  nacre inspect kws.nacre --steps --target x86/avx2      and with AVX2\n"
      "  nacre inspect kws.nacre --target cuda/sm90             what it would take on that GPU, and advice\n"
      "  nacre inspect kws.nacre --svg kws.svg                  the graph and its memory plan as a picture\n"
      "  nacre inspect kws.nacre --html kws.html                the same to zoom and search, with every step's "
      "weights\n"
      "  nacre inspect net.onnx --shape seq=128                 whether a network would convert; nothing is written\n"
      "Names of over 64 characters are shortened, and others to fit the terminal; --json has them whole, with every\n"
      "step, operand and tensor.\n"
      "Of a network (ONNX, TFLite, Keras) the exit code is 0 where it converts, 4 where something in it is not "
      "supported,\n"
      "3 where the file is broken, as of a model's file.");
  add_model(c, o->model);
  c.get_option("MODEL")->description("model file, made by nacre convert, or a network's file");
  c.add_flag("--steps", o->steps, "also one line per step; --json has every step in any case");
  c.writes(c.add_option("--svg", o->svg, "picture to write")->type_name("FILE"));
  c.writes(c.add_option("--html", o->html, "page to write: graphs, steps, weights, memory")->type_name("FILE"));
  c.add_option("--target", o->target,
               "target whose kernels are named, as x86/avx2 [host], and whose program is drawn; for a GPU, advice too")
      ->check(not_empty())
      ->type_name("TARGET");
  const OptionTable<ConvertOptions> of_import =
      rows_of(model_options(), {"--batch", "--shape", "--ignore-setting", "--io-layout"});
  add_options(c, of_import, o->converting, "Of a network");
  add_json(c, o->json);
  c.only_when({"--steps", "--svg", "--html", "--target"}, [o] { return !is_network(o->model); },
              {"is about a model, and this is a network's file", "convert it, and inspect the model"});
  c.only_when(
      names_of(of_import), [o] { return is_network(o->model); },
      {"is about a network's import, and this is a model", "leave it out, or name the network that it was made of"});
  c.runs([o] { inspect(*o); });
}

void add_size(CLI::App& app) {
  auto o = std::make_shared<SizeOptions>();
  Command& c = add_command(app, "size", "every byte that running a model takes: exactly what bind asks for");
  c.footer("Examples:\n  nacre size kws.nacre --target arm/m4\n  nacre size digits_train.nacre --train");
  add_model(c, o->model);
  add_target(c, o->target, "the machine [host]");
  c.add_flag("--train", o->train, "count what training takes, by purpose");
  add_json(c, o->json);
  c.runs([o] { size(*o); });
}

void add_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  Command& c = add_command(app, "run", "run a model on inputs from files");
  c.footer(
      "Examples:\n"
      "  nacre run kws.nacre --input input=features.npy --output out\n"
      "  nacre run kws.nacre --seed 1 --repeat 100              time it on random inputs\n"
      "  nacre run kws.nacre --seed 1 --profile                 which step takes how long, in which kernel\n"
      "A .npy must have the input's type and shape, or samples of it stacked on axis 0, which run one after another;\n"
      "a .bin holds the elements alone, little-endian. Times are of single runs; inputs are copied outside of them.");
  add_model(c, o->model);
  c.reads(c.add_option("--input", o->inputs.files,
                       "NAME=FILE.npy, .bin, .png, .jpg or .wav, one per input; FILE.npz of arrays by inputs' names")
              ->allow_extra_args(false)
              ->type_name("NAME=FILE"),
          file_after_equals);
  add_number(c, "--seed", o->inputs.seed, 0, UINT64_MAX, "random numbers for inputs without a file");
  c.writes(c.add_option("--output", o->output, "directory for the outputs, each as NAME.npy")->type_name("DIR"));
  add_number(c, "--repeat", o->repeat, 1, 100'000'000,
             "run every sample N times, to time a program for this machine [1]");
  add_number(c, "--stream", o->of_stream, 1, UINT64_MAX,
             "begin a new stream after N runs: what a model keeps from run to run is zero again [all are one]");
  c.writes(c.add_option("--all-tensors", o->all_tensors, "directory for every tensor, as STEP_NAME.npy, and index.json")
               ->type_name("DIR"));
  c.add_flag("--quantize-inputs", o->inputs.quantize,
             "turn float32 files into codes by the input's scale, or round them to its float type");
  add_number(c, "--top", o->top, 0, 1000,
             "classes with the highest scores of each sample, by the names that the model has [5 where it has]");
  c.add_flag("--dequantize-outputs", o->dequantize_outputs,
             "give int8 and int16 codes of outputs as float32, by their scale");
  add_cast(c, o->inputs.cast);
  c.add_flag("--resize", o->inputs.resize,
             "scale pictures to the input's size: bilinear, as tf.image.resize does; rounded where it takes uint8");
  add_target(c, o->target, "target of the program to run, if there are several");
  add_running(c, o->running);
  c.add_flag("--profile", o->profile, "also the time of each step and op, and the kernel that runs it");
  add_json(c, o->json);
  c.only_with({"--quantize-inputs", "--cast-inputs", "--resize"}, {"--input"},
              {"is about files of inputs, and there are none", "add --input NAME=FILE"});
  c.runs([o, &c] { run(*o, c.files()); });
}

void add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  Command& c = add_command(app, "bench", "how long a model takes on this machine");
  c.footer(
      "Examples:\n"
      "  nacre bench kws.nacre\n"
      "  nacre bench kws.nacre --kernels avx2 --threads 2 --profile\n"
      "Times are of single runs on random inputs, which are copied outside of them; the first run and those that warm "
      "up\n"
      "are told apart. Where --runs and --min-ms are not given, they end within 5 s.");
  add_model(c, o->model);
  add_target(c, o->target, "target of the program to run, if there are several");
  add_running(c, o->running);
  add_number(c, "--runs", o->runs, 1, 100'000'000,
             "runs that are timed, at least [50, fewer where all would take 4 s]");
  add_number(c, "--min-ms", o->least_ms, 0, 100'000'000, "and so many milliseconds, at least [1000]");
  add_number(c, "--warmup-runs", o->warmup_runs, 0, 100'000'000, "runs before them, at least [1]");
  add_number(c, "--warmup-ms", o->warmup_ms, 0, 100'000'000, "and so many milliseconds, at least [200]");
  add_number(c, "--seed", o->seed, 0, UINT64_MAX, "seed of the random inputs [1]");
  c.add_flag("--profile", o->profile, "also the time of each step and op, and the kernel that runs it");
  add_json(c, o->json);
  c.runs([o] { bench(*o); });
}

void add_check(CLI::App& app) {
  auto o = std::make_shared<CheckOptions>();
  Command& c = add_command(app, "check", "verify a model file: structure, weights, plan, golden pairs");
  c.footer("Example:\n  nacre check kws.nacre\nExit code 1 where a golden pair differs.");
  add_model(c, o->model);
  add_json(c, o->json);
  c.runs([o] { check_model(*o); });
}

void add_kernels(CLI::App& app) {
  auto o = std::make_shared<KernelsOptions>();
  Command& c = add_command(app, "kernels", "the sets of kernels there are; or those a model needs, for firmware");
  c.footer(
      "Examples:\n"
      "  nacre kernels                                          the sets, and which of them run on this machine\n"
      "  nacre kernels --set avx2                               the kernels of one set\n"
      "  nacre kernels kws.nacre -o model_kernels.h             what a model needs of the reference and of cortex_m, "
      "as a\n"
      "                                                       header");
  c.reads(c.add_option("MODEL", o->model, "model file, made by nacre convert")->type_name(""));
  c.writes(c.add_option("-o,--output", o->header, "the header to write [standard output]")->type_name("FILE"));
  c.add_option("--set", o->set, "the set whose kernels are listed")
      ->check(one_of(kernel_sets_listed()))
      ->type_name(CLI::detail::join(kernel_sets_listed(), "|"));
  add_json(c, o->json);
  c.runs([o] { kernels(*o); });
}

void add_doctor(CLI::App& app) {
  auto o = std::make_shared<DoctorOptions>();
  Command& c =
      add_command(app, "doctor", "what of this machine and this build is there, what is missing, what brings it");
  c.footer(
      "Examples:\n"
      "  nacre doctor                                           a line for each thing\n"
      "  nacre doctor | grep -E '^(missing|not compiled)'       what could be added, and how\n"
      "States: there, limited (by a limit of the process), missing, not compiled, not here (this processor lacks its\n"
      "instructions), broken. The packages are Debian's. Exit code 1 if something is broken that the tool itself "
      "needs:\n"
      "the self-test runs a small network with each set of kernels.");
  add_json(c, o->json);
  c.runs([o] { doctor(*o); });
}

void add_firmware(CLI::App& app) {
  auto o = std::make_shared<FirmwareOptions>();
  Command& c = add_command(app, "firmware", "a model as C++ that is bound already: the smallest image there is");
  c.footer(
      "Examples:\n"
      "  nacre firmware kws.nacre --target arm/m4 -o build/kws --name kws\n"
      "  nacre firmware tuned.nacre --train -o build/tuned      a model of nacre convert --train: it learns there\n"
      "Writes NAME.h, NAME.cc (tables), NAME_weights.cc, NAME_test.cc (golden pairs), NAME_main.c and, for projects\n"
      "that take them in, CMakeLists.txt, NAME.mk and meson.build (firmware/README.md). They link libnacre.a,\n"
      "and of it the kernels that the model needs and what runs them: no verifier, no binder, no RAM but the arena.\n"
      "int8 of a model that was converted with this --target runs by the fast kernels of libnacre_cortex_m.a, which\n"
      "take scratch memory; of one for the host by the small ones.\n"
      "The image runs this model alone; one that is to be replaced in the field takes a model file (nacre kernels).");
  add_model(c, o->model);
  c.writes(c.add_option("-o,--output", o->directory, "directory for the sources")->required()->type_name("DIR"));
  add_target(c, o->target, "the machine [the only microcontroller that MODEL is for, else arm/m4]");
  c.add_flag("--train", o->train,
             "also the programs that train, over one state: NAME_training (train/static_trainer.h)");
  c.add_option("--name", o->name, "name of the files and of their symbols [model]")
      ->check(not_empty())
      ->type_name("NAME");
  add_number(c, "--golden", o->golden, 1, 1000, "pairs of inputs and outputs that the self-test runs [2]");
  add_json(c, o->json);
  c.runs([o, &c] { firmware(*o, c.files()); });
}

void add_commands(CLI::App& app, const std::string& name) {
  constexpr struct {
    const char* group;
    const char* name;
    void (*add)(CLI::App&);
  } kCommands[] = {{"Make a model", "convert", add_convert},
                   {"Make a model", "policies", add_policies},
                   {"Make a model", "search", add_search},
                   {"Look at it", "inspect", add_inspect},
                   {"Look at it", "size", add_size},
                   {"Look at it", "check", add_check},
                   {"Look at it", "kernels", add_kernels},
                   {"Run and judge it", "run", add_run},
                   {"Run and judge it", "bench", add_bench},
                   {"Run and judge it", "compare", add_compare},
                   {"Run and judge it", "eval", add_eval},
                   {"Run and judge it", "report", add_report},
                   {"Train it", "tune", add_tune},
                   {"Train it", "export", add_export},
                   {"Microcontrollers", "firmware", add_firmware},
                   {"This machine", "doctor", add_doctor},
                   {kOfTheTool, "completions", add_completions},
                   {kOfTheTool, "man", add_man}};
  const bool one = std::ranges::any_of(kCommands, [&](const auto& command) { return name == command.name; });
  for (const auto& [group, each, add] : kCommands) {
    if (one && name != each) continue;
    add(app);
    app.get_subcommand(each)->group(group);
  }
}

}  // namespace nacre::tools

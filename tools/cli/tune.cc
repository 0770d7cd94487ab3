#include <memory>

#include "tools/cli/cli.h"
#include "tools/cli/option_table.h"
#include "tools/commands/convert/options.h"
#include "tools/commands/export/export.h"
#include "tools/commands/schedule_option.h"
#include "tools/commands/training_options.h"
#include "tools/commands/tune/tune.h"
#include "tools/importers/importer.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

const std::vector<std::string> kPoliciesOfNetwork = {"--policy", "--set", "--policy-file", "--only", "--except"};

// Returns the rewrite options of nacre convert, without --explain.
const OptionTable<RewriteArguments>& rewrite_of_network() {
  static const OptionTable<RewriteArguments> table = [] {
    std::vector<std::string> names = names_of(rewrite_options());
    std::erase(names, "--explain");
    return rows_of(rewrite_options(), names);
  }();
  return table;
}

CLI::Option* add_text(Command& c, const std::string& name, std::string& value, const std::string& type,
                      const std::string& help) {
  return c.add_option(name, value, help)->check(not_empty())->type_name(type);
}

}  // namespace

void add_tune(CLI::App& app) {
  auto o = std::make_shared<TuneOptions>();
  Command& c = add_command(app, "tune", "train a model on labelled data");
  c.footer(
      "Examples:\n"
      "  nacre tune digits.onnx --loss softmax_cross_entropy --data x.npy --labels y.npy --cast-samples --validate 0.2 "
      "\\\n"
      "      --epochs 20 --batch 32 --optimizer adam --lr 0.001 --checkpoint run -o tuned.nacre --html run.html\n"
      "  nacre convert net.onnx --train softmax_cross_entropy --train-last 2 --batch 16 -o train.nacre\n"
      "  nacre tune train.nacre --data train.npz --lr 0.05 --schedule cosine,warmup=50 -o tuned.nacre\n"
      "  mpirun -n 4 nacre tune net.onnx --mpi --loss L --data train.npz --batch 64 --micro-batch 16 \\\n"
      "      --checkpoint run -o tuned.nacre\n"
      "Data: .npy, .npz, CSV or IDX, each also with gzip; rows on axis 0. Ctrl-C keeps a checkpoint, and the same "
      "command goes\n"
      "on with it: what it writes in the end is the same as without the stop, to the byte. Exit code 1 where it "
      "diverges.\n"
      "Schedules: constant; step,every=N,gamma=G; linear,end=E; cosine,end=E; one_cycle,start=S,end=E,pct=P; of all "
      "but the last\n"
      "warmup=N,warmup_start=S. N counts steps, E, S and P are shares; engine/numeric/schedule.h has the formulas.");
  c.reads(c.add_option("MODEL", o->model, "a network's file, or a model made by nacre convert --train")
              ->required()
              ->type_name(""),
          files_of_network);
  c.reads(add_text(c, "--data", o->data, "FILE", "rows to train on: an array per input, matched by name, then by shape")
              ->required());
  c.reads(add_text(c, "--labels", o->labels, "FILE|NAME",
                   "a file, or an array or column of the data, or an input [one named labels or y; CSV: the last]"));
  c.add_flag("--cast-samples,--cast-inputs", o->cast_samples,
             "change the type of samples and targets, where no number changes by it");
  add_text(c, "--scale", o->scale, "X", "multiply samples, such as bytes by 1/255");
  c.reads(add_text(c, "--validate", o->validate, "FRACTION|ROWS.npy",
                   "rows kept for validation, by number or as a mask of bools [none]"));
  add_number(c, "--epochs", o->epochs, 1, 100'000, "passes over the training rows [10]");
  add_number(c, "--batch", o->batch, 1, 1 << 20, "rows of a step [32; of a training model what it takes at once]");
  add_number(c, "--micro-batch", o->micro_batch, 1, 1 << 20,
             "rows at once under a network, several of which make a step [the batch]");
  add_shapes(c, o->shapes);
  add_ignored(c, o->ignored);
  c.add_option("--lr", o->learning_rate,
               "learning rate, of a schedule its peak [0.01; of a Keras file its optimizer's]")
      ->type_name("X");
  add_text(c, "--schedule", o->schedule, "NAME[,FIELD=X]", CLI::detail::join(schedule_names(), ", ") + " [constant]");
  c.add_flag_callback("--no-shuffle", [o] { o->shuffle = false; }, "take the rows in their order in every epoch");
  add_number(c, "--early-stop", o->early_stop, 1, 100'000, "stop where the loss has not become better for N epochs");
  c.add_option("--least", o->least, "for --early-stop a loss lower by more than this is better [0]")->type_name("X");
  c.add_option("--keep", o->keep,
               "epoch whose numbers are written; best: the lowest loss [best where there is --validate]")
      ->check(one_of({"best", "last"}))
      ->type_name("best|last");
  add_number(c, "--max-refused", o->most_refused, 1, 1'000'000,
             "steps in a row without finite gradients that end a training [10]");
  c.writes(add_text(c, "--checkpoint", o->checkpoint, "DIR",
                    "directory in which the training is saved, and from which it goes on"),
           checkpoint_files);
  add_number(c, "--checkpoint-every", o->checkpoint_steps, 1, 1'000'000'000,
             "save after each epoch, and after N steps in between [after each epoch, and each minute]");
  c.add_flag("--restart", o->restart, "do not go on from the checkpoint that is there");
  c.reads(
      add_text(c, "--start-from", o->start_from, "DIR", "begin with the parameters of another training's checkpoint"),
      checkpoint_files);
  c.writes(add_text(c, "-o,--output", o->output, "MODEL", "the tuned network, for inference"));
  c.writes(add_text(c, "--csv", o->csv, "FILE", "a line per epoch, every digit of it"));
  c.writes(add_text(c, "--html", o->html, "FILE", "a page with the curves"));
  add_text(c, "--loss", o->training.loss, "LOSS",
           "loss that a network is trained for: softmax_cross_entropy, ..; nacre convert --help lists them [that of a "
           "Keras file]")
      ->group("Training");
  add_options(c, rows_of(policy_options(), kPoliciesOfNetwork), o->policies);
  add_options(c, rewrite_of_network(), o->rewrite);
  add_options(c, training_options(), o->training, "Training");
  std::string optimizers = c.get_option("--optimizer")->get_description();  // ends with the default in brackets
  optimizers.pop_back();
  c.get_option("--optimizer")->description(optimizers + "; for a Keras file its own]");
  c.get_option("--seed")->description(
      "seed of the order of rows, of dropout and of parameters that are initialised here [1]");
  add_target(c, o->target, "target whose programs of a model train; for a network, the target that it is made for");
  add_kernel_choice(c, o->kernels);
  add_number(c, "--threads", o->threads, 1, kMostThreads, "threads that share the work of large steps [1]");
  c.add_flag("--mpi", o->mpi, "share each step's micro-batches among the processes that mpirun started");
  c.add_option("--compress", o->compress, "send gradients in fewer bits between processes, with --mpi [as they are]")
      ->check(one_of({"bfloat16", "float8"}))
      ->type_name("bfloat16|float8");
  add_json(c, o->json);
  c.only_with({"--compress"}, {"--mpi"}, {"is about what processes send each other, and there is one", "add --mpi"});
  c.only_with({"--restart", "--checkpoint-every"}, {"--checkpoint"},
              {"is about checkpoints, and there are none", "add --checkpoint DIR"});
  c.only_with({"--least"}, {"--early-stop"}, {"is about stopping early", "add --early-stop N"});
  add_conditions(c, rewrite_of_network(), o->rewrite);
  add_conditions(c, training_options(), o->training);
  c.not_with(
      {"--policy"}, {"--rewrite"},
      {"cannot go with --rewrite, which gives every layer its policy", "take --set PATTERN=POLICY for some layers"});
  Command::Names of_network = names_of(training_options());
  std::erase(of_network, "--seed");  // stays allowed for a model, because it also seeds the order of rows
  of_network.insert(of_network.end(), kPoliciesOfNetwork.begin(), kPoliciesOfNetwork.end());
  const Command::Names of_rewrite = names_of(rewrite_of_network());
  of_network.insert(of_network.end(), of_rewrite.begin(), of_rewrite.end());
  of_network.insert(of_network.end(), {"--loss", "--micro-batch", "--shape", "--ignore-setting"});
  c.only_when(
      of_network, [o] { return !is_model(o->model); },
      {"was chosen when the training model was made", "leave it out, or name the network that the model was made of"});
  c.runs([o, &c] {
    o->names_optimizer = c.get_option("--optimizer")->count() > 0;
    o->names_rate = c.get_option("--lr")->count() > 0;
    o->names_schedule = c.get_option("--schedule")->count() > 0;
    tune(*o);
  });
}

void add_export(CLI::App& app) {
  auto o = std::make_shared<ExportOptions>();
  Command& c = add_command(app, "export", "what a checkpoint holds, as a model or in the network's file");
  c.footer(
      "Examples:\n"
      "  nacre export train.nacre --checkpoint run -o tuned.nacre\n"
      "  nacre export train.nacre --checkpoint run --network net.onnx --policy int8_from_float32 -o tuned_int8.nacre\n"
      "  nacre export train.nacre --checkpoint run --network net.keras --keras -o tuned.keras\n"
      "Without --network the model computes what the training's own inference does, to the bit.");
  add_model(c, o->model);
  c.get_option("MODEL")->description("the training model");
  c.reads(add_text(c, "--checkpoint", o->checkpoint, "DIR", "directory of checkpoints")->required(), checkpoint_files);
  c.add_flag("--best", o->best, "take the best epoch of nacre tune instead of the last");
  c.add_flag("--any-training", o->any_training,
             "take what matches in name, type and size from a checkpoint of another training");
  c.writes(add_text(c, "-o,--output", o->output, "MODEL", "the model to write, or the network's file")->required());
  c.reads(add_text(c, "--network", o->network, "FILE",
                   "compile this network anew with what was learned: batch norms folded, any policy"),
          files_of_network);
  c.add_flag("--keras", o->keras,
             "write no model but --network's own .keras or .h5 file, with the numbers that were learned");
  c.add_flag("--onnx", o->onnx, "write no model but --network's own ONNX file, with the numbers that were learned");
  add_options(c, rows_of(policy_options(), kPoliciesOfNetwork), o->policies);
  add_number(c, "--batch", o->batch, 1, 1 << 20, "rows per run of --network, if it leaves their number open [1]");
  add_shapes(c, o->shapes);
  add_ignored(c, o->ignored);
  c.reads(c.add_option("--calibrate", o->samples.data,
                       "samples for int8/static, float8, gptq and awq, as nacre convert takes them")
              ->type_name("DATA"));
  c.add_flag("--cast-samples,--cast-inputs", o->samples.options.cast,
             "change the type of samples, where no number changes by it");
  add_json(c, o->json);
  c.not_with({"--policy", "--set", "--policy-file", "--only", "--except", "--batch", "--calibrate"},
             {"--keras", "--onnx"},
             {"is about a model that is compiled, and none is", "leave it out, or --keras and --onnx"});
  c.only_with({"--keras", "--onnx"}, {"--network"},
              {"writes a network's file, and there is none", "add --network FILE, of which the model was made"});
  c.not_with({"--keras"}, {"--onnx"}, {"cannot go with --onnx: a file is of one format", "leave one of them out"});
  c.only_with({"--policy", "--set", "--policy-file", "--only", "--except", "--batch", "--shape", "--ignore-setting",
               "--calibrate"},
              {"--network"},
              {"is about compiling anew, and there is no network", "add --network FILE, of which the model was made"});
  c.only_with({"--cast-samples"}, {"--calibrate"}, {"is about samples, and there are none", "add --calibrate DATA"});
  c.runs([o] { export_model(*o); });
}

}  // namespace nacre::tools

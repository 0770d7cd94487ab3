#include "tools/commands/tune/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/base/unsupported.h"
#include "tools/commands/convert/options.h"
#include "tools/commands/schedule_option.h"
#include "tools/compile/training.h"
#include "tools/files/atomic_file.h"
#include "tools/files/npy.h"
#include "tools/graph/source_training.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/writer.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
constexpr uint32_t kUsualBatch = 32;

void require_writable(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  fs::path file = path;  // the file that the name leads to, which may not exist
  constexpr int kMostLinks = 40;
  for (int link = 0; link < kMostLinks && fs::is_symlink(file, error); ++link)
    file = file.parent_path() / fs::read_symlink(file, error);
  const std::string folder = file.parent_path().string();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw Error(kIo, path, "cannot be written: its directory is not there or not writable",
                "name another file with " + option);
  if (fs::is_directory(path, error) || path.ends_with('/'))
    throw Error(kIo, path, "is a directory", "name a file with " + option);
  require_directory_of(path);
}

void require_draws(const TuneOptions& o, bool of_model) {
  if (o.training.seed == TrainingArguments().seed || o.shuffle || draws_rows(o.validate) || of_model) return;
  throw Error(kUsage, "--seed", "chooses nothing: rows keep their order, and nothing is drawn",
              "leave it out, or --no-shuffle");
}

uint32_t rows_at_once(const TuneOptions& o) {
  const uint32_t batch = o.batch > 0 ? o.batch : kUsualBatch;
  if (o.micro_batch > batch)
    throw Error(kUsage, "--micro-batch", fmt::format("is {}, more than a batch of {}", o.micro_batch, batch));
  return o.micro_batch > 0 ? o.micro_batch : batch;
}

// Sets the batch for a network that takes exactly `whole` rows at once: a step has one or several such runs.
void fit_whole_batches(const TuneOptions& o, uint32_t whole, size_t rows, TuneSettings& s) {
  const bool asked = whole == rows_at_once(o);
  if (o.micro_batch > 0 && o.micro_batch != whole)
    throw Error(kUsage, "--micro-batch",
                fmt::format("is {}, but the network takes {} at once, no more and no fewer", o.micro_batch,
                            counted(whole, "row")),
                "leave it out");
  if (o.batch == 0) s.batch = std::max(whole, s.batch / whole * whole);
  if (s.batch % whole != 0)
    throw Error(
        kUsage, "--batch",
        fmt::format("is {}, but the network takes {} at once, no more and no fewer", s.batch, counted(whole, "row")),
        fmt::format("give a multiple of {}", whole));
  if (rows < whole)
    throw Error(
        kBadInput, o.model,
        fmt::format("takes whole batches of {} only, and there are {} to train on", whole, counted(rows, "row")),
        asked ? "take a smaller --batch or --micro-batch, or more data" : "give more data");
  if (!asked)
    note(fmt::format("its batch is fixed: a step of {} is {} of {}", counted(s.batch, "row"),
                     counted(s.batch / whole, "run"), whole));
  if (rows % whole != 0)
    note(fmt::format(
        "{} takes whole batches of {} only: {} of every epoch's order {} left out{}", o.model, whole,
        counted(rows % whole, "row"), rows % whole == 1 ? "is" : "are",
        asked ? fmt::format("; --micro-batch {} takes them too", std::gcd(whole, uint32_t(rows % whole))) : ""));
}

std::string hash_of(const Dataset& data) {
  std::string all;
  for (const NpyArray& array : data.inputs) all += sha256_of_elements(array.data);
  all += sha256_of_elements(data.labels.data);
  return sha256(std::span(reinterpret_cast<const uint8_t*>(all.data()), all.size()));
}

std::string schedule_text(const Schedule& s) {
  std::string text = fmt::format("kind {} warm-up {} {}", int(s.kind), s.warmup_steps, s.warmup_start);
  if (s.kind != ScheduleKind::kConstant)
    text += fmt::format(" steps {} gamma {} end {} pct {}", s.steps, s.gamma, s.end, s.pct);
  return text;
}

// Returns the settings and hashes that decide what a training computes. A checkpoint with another text is refused.
std::string decisive_text(const TuneOptions& o, const LoadedModel& model, const Dataset& data, const Split& split,
                          const TuneSettings& s) {
  std::string text = fmt::format("--batch {}\n--lr {}\n--schedule {}\n--seed {}\nshuffle {}\n", s.batch,
                                 s.schedule.rate, schedule_text(s.schedule), s.seed, s.shuffle);
  std::string rows;
  for (const int64_t row : split.validate) rows += fmt::format("{} ", row);
  text += fmt::format("--validate {} ({} rows, {})\n",
                      o.validate.empty() ? "none" : fs::path(o.validate).filename().string(), split.validate.size(),
                      sha256(std::span(reinterpret_cast<const uint8_t*>(rows.data()), rows.size())).substr(0, 16));
  text += fmt::format("--early-stop {} --least {}\n--keep {}\n--max-refused {}\n--start-from {}\n",
                      s.early_stop.patience, s.early_stop.least, s.keep_best ? "best" : "last", s.most_refused,
                      o.start_from.empty() ? "nothing" : "a checkpoint");
  if (!o.compress.empty()) text += fmt::format("--compress {}\n", o.compress);
  if (!is_model(o.model)) text += fmt::format("made with {}\n", options_text(conversion_of(o)));
  text += fmt::format("data {}\nmodel ", hash_of(data));
  for (const uint8_t byte : model.model().header().hash) text += fmt::format("{:02x}", byte);
  return text + "\n";
}

}  // namespace

ImportOptions importing_of(const TuneOptions& o, int batch) {
  return {.batch = batch,
          .batch_if_open = true,
          .shapes = o.shapes,
          .train = true,
          .ignored = o.ignored,
          .unfreeze = o.training.unfreeze,
          .output = o.training.output};
}

TuneOptions with_source(const TuneOptions& o) {
  if (is_model(o.model)) return o;
  const std::vector<uint8_t> bytes = read_network(o.model);
  const Format format = sniff(bytes);
  if (format != Format::kZip && format != Format::kHdf5) return o;
  const std::shared_ptr<const SourceTraining> source = import_network(bytes, o.model, importing_of(o, 0)).training;
  TuneOptions made = o;
  TrainingArguments& a = made.training;
  const bool takes_loss = a.loss.empty(), takes_optimizer = !o.names_optimizer,
             takes_rate = takes_optimizer && !o.names_rate && !o.names_schedule;
  using Of = RefusedSetting::Of;
  const std::map<Of, bool> takes = {
      {Of::kLoss, takes_loss}, {Of::kOptimizer, takes_optimizer}, {Of::kRate, takes_rate}};
  std::vector<std::string> refused;
  for (const RefusedSetting& setting : source->refused)
    if (takes.at(setting.of)) refused.push_back(setting.fact);
  report_problems(o.model, refused);
  if (takes_loss) a.loss = source->loss;
  if (takes_loss && a.output.empty()) a.output = source->output;
  if (takes_optimizer && !source->optimizer.empty()) {
    a.optimizer = source->optimizer;
    if (!o.names_rate && source->learning_rate > 0) made.learning_rate = source->learning_rate;
    if (takes_rate && !source->schedule.empty()) made.schedule = source->schedule;
    if (a.clip_norm == kNoClip && source->clip_norm > 0) a.clip_norm = source->clip_norm;
    if (a.clip_value == kNoClip && source->clip_value > 0) a.clip_value = source->clip_value;
  }
  const std::string schedule = made.schedule == o.schedule ? "" : " --schedule " + made.schedule;
  if (a.loss != o.training.loss || a.optimizer != o.training.optimizer)
    note(fmt::format("training: {} --lr {}{}: what is not on the command line is what the file was compiled with",
                     training_text(a), made.learning_rate, schedule));
  return made;
}

void check_options(const TuneOptions& o) {
  if (!is_model(o.model) && o.training.loss.empty())
    throw Error(kUsage, o.model, "is a network: which loss is to be trained?",
                "add --loss softmax_cross_entropy, or another of nacre tune --help");
  if (is_model(o.model)) require_draws(o, false);
  if (o.output.empty() && o.checkpoint.empty())
    throw Error(kUsage, "tune", "what is learned goes nowhere", "add -o MODEL, or --checkpoint DIR");
  if (!std::isfinite(o.least) || o.least < 0)
    throw Error(kUsage, "--least", fmt::format("is {}", o.least), "give a number from 0");
  if (o.keep == "best" && o.validate.empty())
    throw Error(kUsage, "--keep best", "needs rows to judge by", "add --validate FRACTION");
  require_writable("-o", o.output);
  require_writable("--csv", o.csv);
  require_writable("--html", o.html);
}

ConvertOptions conversion_of(const TuneOptions& o) {
  ConvertOptions options;
  options.network = o.model;
  options.batch = int(rows_at_once(o));
  options.shapes = o.shapes;
  options.ignored = o.ignored;
  options.policies = o.policies;
  options.rewrite = o.rewrite;
  options.training = o.training;
  if (!o.target.empty()) options.targets = {o.target};
  if (o.training.learned_ranges) options.calibration.data = o.data;
  return options;
}

std::unique_ptr<LoadedModel> compile_network(const TuneOptions& o, const Calibration* calibration) {
  ConvertOptions conversion = conversion_of(o);
  const PolicyRequest policies = parse_policy_options(o.policies);
  if (!o.rewrite.type.empty()) check_against_rewrite(policies, "--rewrite " + o.rewrite.type);
  Graph graph = load_network(o.model, importing_of(o, conversion.batch), kSimplifyToTrain, [&](Graph& imported) {
    if (!o.rewrite.type.empty()) rewrite_mixed(imported, o.rewrite.options);
  });
  print_log(graph.log, false);
  resolve_policies(graph, policies);
  CompileOptions compiling;
  compiling.policies = policies;
  compiling.calibration = calibration;
  compiling.range_remedy =
      "int8/full is given its ranges beforehand: tune the model that nacre convert makes of the network with --train, "
      "this policy and --calibrate FILE; or take int8/static_from_float32, whose ranges are found by training";
  compiling.target = {.name = conversion.targets[0], .kernels = kernels_of_target(conversion.targets[0])};
  const PolicyLossScale scale = loss_scale_of_policies(graph, policies, o.training.loss_scale != "auto");
  const TrainingOptions training = parse_training(o.training, scale);
  if (const std::string line = loss_scale_note(o.training, scale); !line.empty()) note(line);
  TrainingModel made = compile_training_graphs(graph, training, compiling);
  if (!draws(made, training))
    // the seed then only orders rows, and nacre convert would refuse it
    conversion.training.seed = TrainingArguments().seed;
  graph.metadata = std::move(made.infer.metadata);
  add_metadata(graph, conversion);
  made.infer.metadata = std::move(graph.metadata);
  write_training(made);
  require_arena_limit(made, training);
  require_batch_norm(made, training);
  require_draws(o, draws(made, training));
  return std::make_unique<LoadedModel>(made.bytes, o.model, kReport);
}

namespace {

// Returns "nacre export T --checkpoint run -o net.nacre", or "" without a checkpoint. For a network, the text begins
// with the nacre convert that makes the training model.
std::string command_to_model(const TuneOptions& o) {
  if (o.checkpoint.empty()) return "";
  const std::string output = o.output.empty() ? "MODEL.nacre" : o.output;
  if (is_model(o.model)) return fmt::format("nacre export {} --checkpoint {} -o {}", o.model, o.checkpoint, output);
  return fmt::format(
      "nacre convert {0} {1} -o TRAINING.nacre, then nacre export TRAINING.nacre --network {0}{2} --checkpoint {3} "
      "-o {4}",
      o.model, options_text(conversion_of(o)), text_of(policy_options(), o.policies), o.checkpoint, output);
}

}  // namespace

TuneSettings settings_of(const TuneOptions& o, const LoadedModel& model, const Objective& objective,
                         const Dataset& data, const Split& split) {
  TuneSettings s;
  s.epochs = o.epochs;
  s.batch = o.batch > 0 ? o.batch : is_model(o.model) ? objective.batch() : kUsualBatch;
  if (objective.whole_batches()) fit_whole_batches(o, objective.batch(), split.train.size(), s);
  const uint64_t steps = (split.train.size() + s.batch - 1) / s.batch * uint64_t{o.epochs};
  if (steps > UINT32_MAX) throw Error(kUsage, "--epochs", "makes more than 4294967295 steps", "give fewer");
  s.schedule = parse_schedule(o.schedule, o.learning_rate, uint32_t(steps));
  if (s.schedule.warmup_steps >= steps && s.schedule.warmup_steps > 0)
    note(fmt::format(
        "--schedule: the warm-up of {} steps is not over in the {} steps of this training, whose rate stays "
        "below --lr {}",
        s.schedule.warmup_steps, steps, o.learning_rate));
  s.shuffle = o.shuffle;
  s.seed = o.training.seed;
  s.early_stop = {.patience = o.early_stop, .least = o.least};
  s.keep_best = o.keep.empty() ? !split.validate.empty() : o.keep == "best";
  s.most_refused = o.most_refused;
  s.checkpoint = o.checkpoint;
  s.checkpoint_steps = o.checkpoint_steps;
  s.compress = o.compress;
  s.to_model = command_to_model(o);
  s.options = decisive_text(o, model, data, split, s);
  return s;
}

}  // namespace nacre::tools

#include "tools/commands/tune.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "tools/atomic_file.h"
#include "tools/commands/check.h"
#include "tools/commands/convert.h"
#include "tools/error.h"
#include "tools/format.h"
#include "tools/input_file.h"
#include "tools/npy.h"
#include "tools/print.h"
#include "tools/progress.h"
#include "tools/statistics.h"
#include "tools/training/deployed.h"
#include "tools/training/parameters.h"
#include "tools/training/schedule_option.h"
#include "tools/training/training.h"
#include "tools/training/tuned_model.h"
#include "tools/training/tuner.h"
#include "tools/writer.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
constexpr uint32_t kUsualBatch = 32;
constexpr size_t kMeasuredRows = 256;
constexpr const char* kReport = "this is a defect of the converter: report it with the network";

// SIGINT and SIGTERM as a wish, while it lives: what is under way ends, and what was learned is saved, within a second of processor
// time. The end of that second, or a second signal, ends the process at once: the checkpoint is then the one that was saved last.
class Interrupt {
 public:
  explicit Interrupt(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = kSignals[0];
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer_) != 0)
      throw Error(kFailed, "tune", "this machine gives no timer of the processor's time");
    struct sigaction action = {};
    action.sa_handler = receive;
    for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Interrupt() {
    if (!wanted_) return;
    timer_delete(timer_);
    for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static int received() { return received_; }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};

  // Only what POSIX lists as async-signal-safe. The timer's signal is like a second one.
  static void receive(int signal) {
    if (received_ != 0) return end_by_signal(received_);
    received_ = signal;
    itimerspec second = {};
    second.it_value.tv_sec = 1;
    timer_settime(timer_, 0, &second, nullptr);
  }

  static inline volatile sig_atomic_t received_ = 0;
  static inline timer_t timer_ = {};
  bool wanted_;
  struct sigaction before_[2] = {};
};

void require_writable(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  const std::string folder = fs::path(path).parent_path().string();
  std::error_code error;
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw Error(kIo, path, "cannot be written: its directory is not there or not writable", "name another file with " + option);
  if (fs::is_directory(path, error) || path.ends_with('/')) throw Error(kIo, path, "is a directory", "name a file with " + option);
}

void require_draws(const TuneOptions& o, bool of_model) {
  if (o.training.seed == TrainingArguments().seed || o.shuffle || draws_rows(o.validate) || of_model) return;
  throw Error(kUsage, "--seed", "chooses nothing: rows keep their order, and nothing is drawn", "leave it away, or --no-shuffle");
}

// Before any work: an answer to a typing error should not take a minute.
void check_options(const TuneOptions& o) {
  if (!is_model(o.model) && o.training.loss.empty())
    throw Error(kUsage, o.model, "is a network: which loss is to be trained?", "add --loss softmax_cross_entropy, or another of nacre tune --help");
  if (is_model(o.model)) require_draws(o, false);
  if (o.output.empty() && o.checkpoint.empty()) throw Error(kUsage, "tune", "what is learned goes nowhere", "add -o MODEL, or --checkpoint DIR");
  if (!std::isfinite(o.least) || o.least < 0) throw Error(kUsage, "--least", fmt::format("is {}", o.least), "give a number from 0");
  if (o.keep == "best" && o.validate.empty())
    throw Error(kUsage, "--keep best", "needs rows to judge by", "add --validate FRACTION");
  require_writable("-o", o.output);
  require_writable("--csv", o.csv);
  require_writable("--html", o.html);
}

uint32_t rows_at_once(const TuneOptions& o) {
  const uint32_t batch = o.batch > 0 ? o.batch : kUsualBatch;
  if (o.micro_batch > batch) throw Error(kUsage, "--micro-batch", fmt::format("is {}, more than a batch of {}", o.micro_batch, batch));
  return o.micro_batch > 0 ? o.micro_batch : batch;
}

// The nacre convert by which a network becomes the model that is trained: the same bytes, so that a checkpoint is of both.
ConvertOptions conversion_of(const TuneOptions& o) {
  ConvertOptions options;
  options.network = o.model;
  options.batch = int(rows_at_once(o));
  options.policies = o.policies;
  options.training = o.training;
  if (o.training.learned_ranges) options.calibration.data = o.data;
  return options;
}

std::unique_ptr<LoadedModel> compile_network(const TuneOptions& o, const Calibration* calibration = nullptr) {
  ConvertOptions conversion = conversion_of(o);
  const PolicyRequest policies = parse_policy_options(o.policies);
  const Graph graph = load_network(o.model, {.batch = conversion.batch, .train = true}, kSimplifyToTrain);
  print_log(graph, false);
  CompileOptions compiling;
  compiling.policies = policies;
  compiling.calibration = calibration;
  const TrainingOptions training = parse_training(o.training, computes_in(graph, policies, ElementType::kFloat16));
  const auto compile = [&] {
    Graph described = graph;
    add_metadata(described, conversion);
    return compile_training(std::move(described), training, compiling);
  };
  TrainingModel made = compile();
  if (o.training.seed != TrainingArguments().seed && !draws(made, training)) {
    conversion.training.seed = TrainingArguments().seed;  // it orders rows alone: nacre convert refuses it
    made = compile();
  }
  require_arena_limit(made, training);
  require_batch_norm(made, training);
  require_draws(o, draws(made, training));
  return std::make_unique<LoadedModel>(made.bytes, o.model, kReport);
}

std::string hash_of(const Dataset& data) {
  std::string all;
  for (const NpyArray& array : data.inputs) all += sha256(array.data);
  all += sha256(data.labels.data);
  return sha256(std::span(reinterpret_cast<const uint8_t*>(all.data()), all.size()));
}

std::string schedule_text(const Schedule& s) {
  std::string text = fmt::format("kind {} warm-up {} {}", int(s.kind), s.warmup_steps, s.warmup_start);
  if (s.kind != ScheduleKind::kConstant) text += fmt::format(" steps {} gamma {} end {} pct {}", s.steps, s.gamma, s.end, s.pct);
  return text;
}

// Everything that decides what a run computes, line by line: a checkpoint of a run with other lines is refused.
std::string decisive_text(const TuneOptions& o, const LoadedModel& model, const Dataset& data, const Split& split, const TuneSettings& s) {
  std::string text = fmt::format("--batch {}\n--lr {}\n--schedule {}\n--seed {}\nshuffle {}\n", s.batch, s.schedule.rate,
                                 schedule_text(s.schedule), s.seed, s.shuffle);
  std::string rows;
  for (const int64_t row : split.validate) rows += fmt::format("{} ", row);
  text += fmt::format("--validate {} ({} rows, {})\n", o.validate.empty() ? "none" : fs::path(o.validate).filename().string(), split.validate.size(),
                      sha256(std::span(reinterpret_cast<const uint8_t*>(rows.data()), rows.size())).substr(0, 16));
  text += fmt::format("--early-stop {} --least {}\n--keep {}\n--max-refused {}\n--start-from {}\n", s.early_stop.patience, s.early_stop.least,
                      s.keep_best ? "best" : "last", s.most_refused, o.start_from.empty() ? "nothing" : "a checkpoint");
  if (!is_model(o.model)) text += fmt::format("made with {}\n", options_text(conversion_of(o)));
  text += fmt::format("data {}\nmodel ", hash_of(data));
  for (const uint8_t byte : model.model().header().hash) text += fmt::format("{:02x}", byte);
  return text + "\n";
}

TuneSettings settings_of(const TuneOptions& o, const LoadedModel& model, const Objective& objective, const Dataset& data, const Split& split) {
  TuneSettings s;
  s.epochs = o.epochs;
  s.batch = o.batch > 0 ? o.batch : is_model(o.model) ? objective.batch() : kUsualBatch;
  const uint64_t steps = (split.train.size() + s.batch - 1) / s.batch * uint64_t{o.epochs};
  if (steps > UINT32_MAX) throw Error(kUsage, "--epochs", "makes more than 4294967295 steps", "give fewer");
  s.schedule = parse_schedule(o.schedule, o.learning_rate, uint32_t(steps));
  s.shuffle = o.shuffle;
  s.seed = o.training.seed;
  s.early_stop = {.patience = o.early_stop, .least = o.least};
  s.keep_best = o.keep.empty() ? !split.validate.empty() : o.keep == "best";
  s.most_refused = o.most_refused;
  s.checkpoint = o.checkpoint;
  s.checkpoint_steps = o.checkpoint_steps;
  s.options = decisive_text(o, model, data, split, s);
  return s;
}

std::string percent(double share) { return std::isnan(share) ? "" : fmt::format("  {:6.2f} %", 100 * share); }

std::string epoch_line(const EpochRecord& e, uint32_t epochs) {
  std::string line = fmt::format("epoch {:>3} of {}   loss {:<9.5g}{}", e.epoch, epochs, e.train_loss, percent(e.train_accuracy));
  if (!std::isnan(e.validate_loss)) line += fmt::format("   validation {:<9.5g}{}", e.validate_loss, percent(e.validate_accuracy));
  line += fmt::format("   rate {:.4g}", e.learning_rate);
  if (e.refused > 0) line += fmt::format("   {} of {} steps refused, loss scale {}", e.refused, e.steps, e.loss_scale);
  return line + "\n";
}

std::string clock_text(double seconds) {
  const auto whole = uint64_t(std::max(0.0, std::ceil(seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// The page and the log, as far as the training is.
class Told {
 public:
  Told(const TuneOptions& o, const Objective& objective, const Dataset& data, const Split& split, const TuneSettings& s, uint32_t steps)
      : options_(o) {
    page_.title = "Training of " + fs::path(o.model).filename().string();
    page_.summary = {fmt::format("{} to train on, {} to validate on; {} of {} per epoch; loss {}.", counted(split.train.size(), "row"),
                                 grouped(split.validate.size()), counted(steps, "step"), counted(s.batch, "row"), objective.loss_name())};
    page_.options = {{"data", fs::path(o.data).filename().string() + fmt::format(", {}", counted(uint64_t(data.rows), "row"))},
                     {"--validate", o.validate.empty() ? "none" : fs::path(o.validate).filename().string()},
                     {"--epochs", std::to_string(o.epochs)},
                     {"--batch", std::to_string(s.batch)},
                     {"--lr", fmt::format("{}", o.learning_rate)},
                     {"--schedule", o.schedule},
                     {"--seed", std::to_string(s.seed)},
                     {"--keep", s.keep_best ? "best" : "last"}};
    if (o.early_stop > 0) page_.options.emplace_back("--early-stop", fmt::format("{}, better by more than {}", o.early_stop, o.least));
    if (!is_model(o.model)) page_.options.emplace_back("made with", options_text(conversion_of(o)));
  }

  void add(const std::string& sentence) { page_.summary.push_back(sentence); }

  void write(const std::vector<EpochRecord>& epochs) {
    if (!options_.csv.empty()) write_file_whole(options_.csv, csv_log(epochs));
    if (options_.html.empty()) return;
    page_.epochs = epochs;
    write_file_whole(options_.html, training_html(page_));
  }

 private:
  const TuneOptions& options_;
  TrainingPage page_;
};

class Session {
 public:
  explicit Session(const TuneOptions& o)
      : options_(o),
        model_(model_of(o)),
        objective_(*model_),
        data_(read(o, objective_, notes_)),
        split_(split_rows(data_.rows, o.validate, o.training.seed)),
        settings_(settings_of(o, *model_, objective_, data_, split_)),
        trainer_(*model_),
        tuner_(trainer_, objective_, data_, split_, settings_),
        told_(o, objective_, data_, split_, settings_, tuner_.steps_per_epoch()) {}

  void run() {
    for (const std::string& note : notes_) fmt::print(stderr, "{}\n", note);
    const bool resumed = tuner_.begin(options_.restart);
    if (resumed) say(fmt::format("goes on from {}: epoch {}, step {}\n", options_.checkpoint, tuner_.position().epoch + 1, tuner_.position().step + 1));
    else if (!options_.start_from.empty()) start_from();
    const auto start = std::chrono::steady_clock::now();
    const Tuner::End end = train(start);
    if (tuner_.left_out() > 0)
      fmt::print(stderr, "of every epoch's order the last {} are left out: the model takes whole batches of {} only\n",
                 counted(tuner_.left_out(), "row"), objective_.batch());
    if (end == Tuner::End::kInterrupted) return interrupted();
    finish(end, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

 private:
  static std::unique_ptr<LoadedModel> model_of(const TuneOptions& o) {
    if (is_model(o.model)) return std::make_unique<LoadedModel>(o.model);
    if (!o.training.learned_ranges) return compile_network(o);
    const Calibration calibration = measured_ranges(o);
    return compile_network(o, &calibration);
  }

  // From where learned ranges start: those of the first rows to train on. What a row is, a model with running ranges says.
  static Calibration measured_ranges(const TuneOptions& o) {
    TuneOptions running = o;
    running.training.learned_ranges = false;
    const std::unique_ptr<LoadedModel> model = compile_network(running);
    const Objective objective(*model);
    std::vector<std::string> notes;  // said when the data are read for training
    Dataset data = read(o, objective, notes);
    const Split split = split_rows(data.rows, o.validate, o.training.seed);
    const size_t rows = std::min<size_t>(split.train.size(), kMeasuredRows);
    for (size_t i = 0; i < data.inputs.size(); ++i) {
      std::vector<uint8_t> bytes;
      for (size_t row = 0; row < rows; ++row) {
        const std::span<const uint8_t> from = data.row(i, split.train[row]);
        bytes.insert(bytes.end(), from.begin(), from.end());
      }
      data.inputs[i].data = std::move(bytes);
      data.inputs[i].dims[0] = int64_t(rows);
    }
    const Graph graph = load_network(o.model, {.train = true}, kSimplifyToTrain);
    return calibrate(graph, make_samples(graph, std::move(data.inputs)));
  }

  static Dataset read(const TuneOptions& o, const Objective& objective, std::vector<std::string>& notes) {
    DataOptions data = {.data = o.data, .labels = o.labels, .cast = o.cast_samples};
    if (!o.scale.empty()) data.scale = parse_scale(o.scale, "--scale");
    return read_dataset(objective.inputs(), objective.labels(), data, notes);
  }

  void say(const std::string& text) const {
    if (options_.json) return;
    print(text);
    std::fflush(stdout);
  }

  void start_from() {
    const Checkpoint::Report report = tuner_.start_from(options_.start_from);
    say(fmt::format("starts from {}: {} of {} tensors of the state taken, {} as in the model\n", options_.start_from, report.taken,
                    report.taken + report.kept, report.kept));
  }

  Tuner::End train(std::chrono::steady_clock::time_point start) {
    const Interrupt interrupt(!options_.checkpoint.empty());
    const uint64_t steps = tuner_.steps_per_epoch(), all = steps * options_.epochs;
    const uint64_t first = tuner_.position().epoch * steps + tuner_.position().step;
    nacre::tools::Progress bar("tune", all);
    return tuner_.run({.step =
                           [&](const Tuner::Progress& p) {
                             const uint64_t done = p.position.epoch * steps + p.position.step;
                             const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                             bar.show(done, fmt::format("epoch {}  loss {:.4g}{}  {:.0f} rows/s  {} left", p.position.epoch + 1,
                                                        p.position.judged.mean_loss(), percent(p.position.judged.accuracy()),
                                                        double(p.rows) / seconds, clock_text(seconds / double(done - first) * double(all - done))));
                           },
                       .epoch =
                           [&](const TunePosition& p) {
                             bar.clear();
                             say(epoch_line(p.epochs.back(), options_.epochs));
                             told_.write(p.epochs);
                           },
                       .interrupted = [] { return Interrupt::received() != 0; }});
  }

  // As a program that was interrupted ends: by the signal.
  void interrupted() const {
    say(fmt::format("stopped in epoch {} after step {}: what was learned is in {}, the same command goes on with it\n", tuner_.position().epoch + 1,
                    tuner_.position().step, options_.checkpoint));
    std::fflush(stdout);
    end_by_signal(Interrupt::received());
  }

  // Where every judgement was infinite or no number, no epoch is worth writing.
  void require_a_loss(const std::vector<EpochRecord>& epochs) const {
    if (epochs.empty() || std::ranges::any_of(epochs, [](const EpochRecord& e) { return std::isfinite(watched_loss(e)); })) return;
    throw Error(kFailed, options_.model, fmt::format("after none of {} epochs was the loss a finite number: the training diverges", epochs.size()),
                "take a lower --lr, a warm-up or --clip-norm 1, and data of about unit size (--scale); nothing is written");
  }

  void finish(Tuner::End end, double seconds) {
    const std::vector<EpochRecord>& epochs = tuner_.position().epochs;
    require_a_loss(epochs);
    tuner_.take_kept();
    if (!options_.output.empty()) write_output();
    told_.write(epochs);
    const size_t kept_epoch = kept(epochs);
    if (options_.json) return print_summary(end, kept_epoch, seconds);
    if (end == Tuner::End::kEarly)
      print(fmt::format("stopped early: the loss did not become better for {}\n", counted(options_.early_stop, "epoch")));
    print(fmt::format("kept: epoch {}{}\n", epochs[kept_epoch].epoch, options_.output.empty() ? "" : " -> " + escaped(options_.output)));
    if (written_) print_written();
    if (const std::vector<std::string> constants = not_trained_of(*model_); !constants.empty())
      print(fmt::format("  {}\n", not_trained_text(constants)));
    if (!options_.html.empty()) print(fmt::format("curves: {}\n", escaped(options_.html)));
  }

  size_t kept(const std::vector<EpochRecord>& epochs) const {
    return settings_.keep_best ? best_epoch(epochs).value_or(epochs.size() - 1) : epochs.size() - 1;
  }

  void print_summary(Tuner::End end, size_t kept, double seconds) const {
    const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    const std::vector<EpochRecord>& epochs = tuner_.position().epochs;
    Json list = Json::array();
    for (const EpochRecord& e : epochs)
      list.push_back({{"epoch", e.epoch}, {"steps", e.steps}, {"refused", e.refused}, {"learning_rate", number(double(e.learning_rate))},
                      {"loss_scale", number(double(e.loss_scale))}, {"loss", number(e.train_loss)}, {"accuracy", number(e.train_accuracy)},
                      {"validation_loss", number(e.validate_loss)}, {"validation_accuracy", number(e.validate_accuracy)}});
    print_json({{"model", options_.model}, {"output", options_.output}, {"rows", split_.train.size()}, {"validation_rows", split_.validate.size()},
                {"batch", settings_.batch}, {"steps", tuner_.position().applied}, {"stopped_early", end == Tuner::End::kEarly},
                {"kept_epoch", epochs[kept].epoch}, {"not_trained", not_trained_of(*model_)}, {"seconds", seconds}, {"epochs", list}, {"written", written_ ? written_json() : Json()}});
  }

  // What is in the file, and how good that is: of its own program, not of the trainer's.
  struct Written {
    Deployed deployed;
    Statistics statistics = {};
    Judged judged = {};
    std::string rows = {};  // of what
  };

  // Of a network what a user deploys; of a training model, whose network is not at hand, the program that it infers with.
  void write_output() {
    Written w;
    const std::vector<std::pair<std::string, std::string>> metadata = {{"tuned", settings_.options}};
    if (is_model(options_.model)) w.deployed.bytes = tuned_model(trainer_, metadata);
    else w.deployed = deployed_network(metadata);
    const LoadedModel made(w.deployed.bytes, options_.output, kReport);
    const BoundProgram bound(made, made.infer_program());
    const bool validates = !split_.validate.empty();
    const std::vector<int64_t>& rows = validates ? split_.validate : split_.train;
    w.judged = objective_.judge_rows(made, bound.program(), data_, rows);
    w.rows = counted(rows.size(), "row") + (validates ? " of validation" : " of training");
    w.statistics = statistics(made, made.infer_program());
    write_checked(options_.output, w.deployed.bytes, options_.model);
    written_ = std::move(w);
    const std::vector<EpochRecord>& epochs = tuner_.position().epochs;
    told_.add(fmt::format("{}, of epoch {}: {}.", fs::path(options_.output).filename().string(), epochs[kept(epochs)].epoch, judged_text()));
  }

  Deployed deployed_network(const std::vector<std::pair<std::string, std::string>>& metadata) {
    DeployOptions deploying;
    deploying.network = options_.model;
    deploying.policies = parse_policy_options(options_.policies);
    deploying.metadata = metadata;
    return deployed_model(deploying, *model_, trainer_.trainer().state());
  }

  std::string judged_text() const {
    const double accuracy = written_->judged.accuracy();
    return fmt::format("loss {:.5g}{} on the {}", written_->judged.mean_loss(), std::isnan(accuracy) ? "" : fmt::format(", {:.2f} % right", 100 * accuracy),
                       written_->rows);
  }

  void print_written() const {
    const Statistics& s = written_->statistics;
    print(fmt::format("  network  {}\n",
                      is_model(options_.model)
                          ? "the training's own inference program; nacre export --network FILE compiles the network anew, batch norms folded, adapters merged"
                          : "compiled anew: " + deployed_text(written_->deployed)));
    print(fmt::format("  takes    {} at a time, arena {} bytes, file {} bytes\n", counted(s.batch, "row"), grouped(s.arena_bytes), grouped(s.file_bytes)));
    print(fmt::format("  gives    {}\n", judged_text()));
    print(fallbacks_text(written_->deployed.fallbacks));
  }

  Json written_json() const {
    const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    const Statistics& s = written_->statistics;
    return {{"batch", s.batch}, {"arena_bytes", s.arena_bytes}, {"weight_bytes", s.weight_bytes}, {"file_bytes", s.file_bytes},
            {"parameters", written_->deployed.parameters}, {"adapters", written_->deployed.adapters}, {"rows", written_->rows},
            {"loss", number(written_->judged.mean_loss())}, {"accuracy", number(written_->judged.accuracy())},
            {"fallbacks", written_->deployed.fallbacks}};
  }

  const TuneOptions& options_;
  std::vector<std::string> notes_;
  std::unique_ptr<LoadedModel> model_;
  Objective objective_;
  Dataset data_;
  Split split_;
  TuneSettings settings_;
  LoadedTrainer trainer_;
  Tuner tuner_;
  Told told_;
  std::optional<Written> written_;
};

}  // namespace

bool is_model(const std::string& path) {
  char magic[sizeof kMagic] = {};
  InputFile(path).read(0, std::as_writable_bytes(std::span(magic)));
  return std::memcmp(magic, kMagic, sizeof kMagic) == 0;
}

void tune(const TuneOptions& options) {
  check_options(options);
  Session(options).run();
}

}  // namespace nacre::tools

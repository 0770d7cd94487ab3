#include "tools/commands/tune/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "ports/cuda/cuda_port.h"
#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/base/progress.h"
#include "tools/base/version.h"
#include "tools/commands/check.h"
#include "tools/commands/convert/convert.h"
#include "tools/commands/interrupt.h"
#include "tools/commands/training_files.h"
#include "tools/commands/tune/lines.h"
#include "tools/commands/tune/output.h"
#include "tools/commands/tune/settings.h"
#include "tools/compile/training.h"
#include "tools/differentiate/parameters.h"
#include "tools/files/atomic_file.h"
#include "tools/files/input_file.h"
#include "tools/files/npy.h"
#include "tools/model/gpu.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/program_cost.h"
#include "tools/model/writer.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMeasuredRows = 256;
class Session {
 public:
  Session(const TuneOptions& o, Ranks* ranks)
      : options_(o), ranks_(ranks), model_(model_of(o)), objective_(*model_, o.target),
        data_(read(o, objective_, notes_)), split_(split_rows(data_.rows, o.validate, o.training.seed)),
        settings_(settings_of(o, *model_, objective_, data_, split_)),
        trainer_(*model_, training_ports(*model_, o.kernels, o.target), o.threads, o.target),
        tuner_(trainer_, objective_, data_, split_, same_settings(), ranks),
        output_(o, objective_, data_, split_, settings_.options, trainer_),
        files_(o, objective_, data_, split_, settings_, tuner_.steps_per_epoch()) {}

  // Trains and writes the results. Returns false if a signal interrupted it; then it has kept what it can.
  bool run() {
    for (const std::string& line : notes_) note(line);
    if (first()) {
      output_.require_possible();
      say_what_stays();
      say(fmt::format("{}\n", fmt::join(trained_lines(trained_of(*model_)), " ")));
    }
    const bool resumed = tuner_.begin(options_.restart);
    if (resumed)
      say(fmt::format("goes on from {}: epoch {}, step {}\n", options_.checkpoint, tuner_.position().epoch + 1,
                      tuner_.position().step + 1));
    else if (!options_.start_from.empty()) start_from();
    if (tuner_.begun_before())
      say(fmt::format("begins anew: the training in {} was ended before its first checkpoint\n",
                      escaped(options_.checkpoint)));
    for (const std::string& warning : tuner_.warnings()) warn(warning);
    const auto start = std::chrono::steady_clock::now();
    const Tuner::End end = keeping([](const Error& e) { return e.code == kIo; }, [&] { return train(start); });
    if (tuner_.left_out() > 0)
      note(fmt::format("of every epoch's order the last {} are left out: the model takes whole batches of {} only",
                       counted(tuner_.left_out(), "row"), objective_.batch()));
    if (end == Tuner::End::kInterrupted) {
      interrupted();
      return false;
    }
    if (first())
      keeping([](const Error&) { return true; },
              [&] { finish(end, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()); });
    files_.require_written(output_.written() ? options_.output + " is written"
                                             : "what was learned is in " + options_.checkpoint);
    return true;
  }

 private:
  bool first() const { return ranks_ == nullptr || ranks_->first(); }

  // Returns the settings once all ranks have confirmed that theirs are equal.
  const TuneSettings& same_settings() const {
    if (ranks_ == nullptr) return settings_;
    const Ports ports = training_ports(*model_, options_.kernels, options_.target);
    std::string kernels = name_of_ports(ports);
    if (kernels.starts_with("cuda")) kernels += fmt::format(" of {}", gpu_device().name());
    ranks_->require_same(fmt::format("library {}\nkernels {}\nepochs {}\ncompress {}\n{}", kVersion, kernels,
                                     settings_.epochs, settings_.compress.empty() ? "none" : settings_.compress,
                                     settings_.options));
    return settings_;
  }

  static std::unique_ptr<LoadedModel> model_of(const TuneOptions& o) {
    if (is_model(o.model)) return std::make_unique<LoadedModel>(o.model);
    if (!o.training.learned_ranges) return compile_network(o);
    const Calibration calibration = measured_ranges(o);
    return compile_network(o, &calibration);
  }

  // Measures the ranges that learned ranges start from, on the first kMeasuredRows rows to train on. A model with
  // running ranges, compiled first, defines the inputs and so the rows of the data.
  static Calibration measured_ranges(const TuneOptions& o) {
    TuneOptions running = o;
    running.training.learned_ranges = false;
    const std::unique_ptr<LoadedModel> model = compile_network(running);
    const Objective objective(*model, o.target);
    std::vector<std::string> notes;  // reported when the data are read for training
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
    const Graph graph = load_network(o.model, importing_of(o, 0), kSimplifyToTrain);
    for (size_t i = 0; i < data.inputs.size() && objective.whole_batches(); ++i)
      data.inputs[i] =
          as_samples(objective.inputs()[i], data.inputs[i], graph.values[size_t(graph.inputs[i].value)].dims);
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
    flush_printed();
  }

  void tell(const std::string& line) const {  // prints the line; with --json on standard error
    if (options_.json && first() && caller() == nullptr) note(line);
    say(line + "\n");
  }

  // Prints before the first epoch what no step will change.
  void say_what_stays() const {
    for (const std::string& line : untrained_lines(frozen_of(*model_), not_trained_of(*model_))) say(line + "\n");
  }

  void start_from() {
    const Checkpoint::Report report = tuner_.start_from(options_.start_from);
    say(fmt::format("starts from {}: {} of {} tensors of the state taken, {} as in the model\n", options_.start_from,
                    report.taken, report.taken + report.kept, report.kept));
  }

  Tuner::End train(std::chrono::steady_clock::time_point start) {
    const Interrupt interrupt(caller() == nullptr);
    const uint64_t steps = tuner_.steps_per_epoch(), all = steps * options_.epochs;
    const uint64_t first = tuner_.position().epoch * steps + tuner_.position().step;
    nacre::tools::Progress bar("tune", all);
    return tuner_.run(
        {.step =
             [&](const Tuner::Progress& p) {
               const uint64_t done = p.position.epoch * steps + p.position.step;
               // bar.show() would throw if the caller interrupts; run() asks `interrupted` below, and saves first
               if (caller() != nullptr) return caller()->progress("tune", done, all);
               const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
               bar.show(done, fmt::format("epoch {}  loss {:.4g}{}  {:.0f} rows/s  {} left", p.position.epoch + 1,
                                          p.position.judged.mean_loss(), percent_text(p.position.judged.accuracy()),
                                          double(p.rows) / seconds,
                                          clock_text(seconds / double(done - first) * double(all - done))));
             },
         .epoch =
             [&](const TunePosition& p) {
               bar.clear();
               say(epoch_line(p.epochs.back(), options_.epochs));
               if (this->first()) write_files(p.epochs, false);
               return caller() == nullptr || caller()->epoch(epoch_json(p.epochs.back()).dump());
             },
         .interrupted = [] { return caller() != nullptr ? caller()->interrupted() : Interrupt::received() != 0; }});
  }

  void interrupted() {
    const std::string where =
        fmt::format("stopped in epoch {} after step {}", tuner_.position().epoch + 1, tuner_.position().step);
    if (options_.checkpoint.empty() && caller() == nullptr) keep_output(where);
    if (!options_.checkpoint.empty())
      tell(fmt::format("{}: what was learned is in {}, the same command goes on with it", where, options_.checkpoint));
    if (caller() != nullptr) throw Interrupted();
    if (options_.json && first()) print_interrupted();
    flush_printed();
  }

  void print_interrupted() const {
    const TunePosition& position = tuner_.position();
    const bool kept_output = options_.checkpoint.empty() && position.applied > 0;
    print_json({{"model", options_.model},
                {"interrupted", true},
                {"epoch", position.epoch + 1},
                {"step", position.step},
                {"steps", position.applied},
                {"output", kept_output ? Json(options_.output) : Json()},
                {"checkpoint", options_.checkpoint.empty() ? Json() : Json(options_.checkpoint)},
                {"warnings", warnings_},
                {"epochs", epochs_json()}});
  }

  Json epochs_json() const {
    Json list = Json::array();
    for (const EpochRecord& e : tuner_.position().epochs) list.push_back(epoch_json(e));
    return list;
  }

  // Writes the model if there is no checkpoint: of the best epoch, or of the steps so far. The model is not judged,
  // which may take long.
  void keep_output(const std::string& where) {
    const TunePosition& position = tuner_.position();
    if (position.applied == 0)
      return tell(fmt::format("{}: nothing was learned, and {} is not written", where, escaped(options_.output)));
    const std::vector<EpochRecord>& epochs = position.epochs;
    const bool best = settings_.keep_best && best_epoch(epochs).has_value();
    if (first()) {
      if (best) tuner_.take_kept();
      output_.write(false);
    }
    tell(fmt::format("{}: {} is in {}; with --checkpoint DIR the same command would go on", where,
                     best ? fmt::format("the best epoch, {},", epochs[kept(epochs)].epoch)
                          : fmt::format("what {} taught", counted(position.applied, "step")),
                     escaped(options_.output)));
  }

  // Keeps what was learned if `work` fails but the training did not, for example because the disk is full.
  template <class F>
  std::invoke_result_t<F> keeping(bool (*lost_by)(const Error&), F work) {
    try {
      return work();
    } catch (const Told&) {
      throw;
    } catch (const Error& error) {
      if (!lost_by(error) || tuner_.position().applied == 0 || !first()) throw;
      throw Kept(error, kept_text());
    }
  }

  struct Kept : Error {
    Kept(const Error& error, const std::string& how) : Error(error) {
      static_cast<std::runtime_error&>(*this) = std::runtime_error(error.what() + ("; " + how));
    }
  };

  // Tells where the learned state is kept. Without a checkpoint, saves one beside the output, if possible.
  std::string kept_text() {
    constexpr const char* kSame = "the same command goes on from it";
    if (tuner_.checkpoint_there())
      return fmt::format("{} keeps what it was given last: {}", escaped(options_.checkpoint), kSame);
    const bool gone = !options_.checkpoint.empty();
    const char* const kNowhere =
        gone ? "what was learned is lost" : "what was learned is lost: --checkpoint DIR keeps it";
    if (options_.output.empty()) return kNowhere;
    const std::string directory = options_.output + ".checkpoint";
    std::error_code error;
    if (caller() != nullptr || options_.output == "-" || fs::exists(directory, error)) return kNowhere;
    try {
      if (took_kept_) tuner_.take_last();
      tuner_.save_to(directory);
    } catch (const Error&) {
      return kNowhere;
    }
    return fmt::format("what was learned is in {0}: with --checkpoint {0} {1}", escaped(directory), kSame);
  }

  void finish(Tuner::End end, double seconds) {
    const std::vector<EpochRecord>& epochs = tuner_.position().epochs;
    warn_of_rising_loss(epochs);
    tuner_.take_kept();
    took_kept_ = true;
    const size_t kept_epoch = kept(epochs);
    if (!options_.output.empty()) {
      output_.write(true);
      files_.add_model(output_.facts(epochs[kept_epoch].epoch), output_.conditions());
    }
    write_files(epochs, true);
    if (options_.json) return print_summary(end, kept_epoch, seconds);
    if (end == Tuner::End::kEarly)
      print(
          fmt::format("stopped early: the loss did not become better for {}\n", counted(options_.early_stop, "epoch")));
    print(fmt::format("kept: epoch {}{}\n", epochs[kept_epoch].epoch,
                      options_.output.empty() ? "" : " -> " + escaped(options_.output)));
    if (output_.written()) output_.print();
    if (!options_.html.empty() && files_.written(options_.html))
      print(fmt::format("curves: {}\n", escaped(options_.html)));
  }

  void write_files(const std::vector<EpochRecord>& epochs, bool last) {
    for (const std::string& said : files_.write(epochs, last)) warn(said);
  }

  void warn_of_rising_loss(const std::vector<EpochRecord>& epochs) {
    if (!only_rises(epochs)) return;
    warn(fmt::format("the loss only rose, from {:.5g} to {:.5g} over {}: a lower --lr may help",
                     watched_loss(epochs.front()), watched_loss(epochs.back()), counted(epochs.size(), "epoch")));
  }

  void warn(const std::string& warning) {
    warnings_.push_back(warning);
    tools::warn(warning);
  }

  size_t kept(const std::vector<EpochRecord>& epochs) const {
    return settings_.keep_best ? best_epoch(epochs).value_or(epochs.size() - 1) : epochs.size() - 1;
  }

  void print_summary(Tuner::End end, size_t kept, double seconds) const {
    print_json({{"model", options_.model},
                {"output", options_.output},
                {"rows", split_.train.size()},
                {"validation_rows", split_.validate.size()},
                {"batch", settings_.batch},
                {"steps", tuner_.position().applied},
                {"stopped_early", end != Tuner::End::kEpochs},
                {"kept_epoch", tuner_.position().epochs[kept].epoch},
                {"not_trained", not_trained_of(*model_)},
                {"frozen", frozen_json(frozen_of(*model_))},
                {"trained", trained_json(trained_of(*model_))},
                {"warnings", warnings_},
                {"seconds", seconds},
                {"epochs", epochs_json()},
                {"written", output_.json()}});
  }

  const TuneOptions& options_;
  Ranks* ranks_;
  std::vector<std::string> notes_;
  std::unique_ptr<LoadedModel> model_;
  Objective objective_;
  Dataset data_;
  Split split_;
  TuneSettings settings_;
  LoadedTrainer trainer_;
  Tuner tuner_;
  TunedOutput output_;
  TrainingFiles files_;
  std::vector<std::string> warnings_;
  bool took_kept_ = false;
};

}  // namespace

bool is_model(const std::string& path) {
  char magic[sizeof kMagic] = {};
  InputFile(path).read(0, std::as_writable_bytes(std::span(magic)));
  return std::memcmp(magic, kMagic, sizeof kMagic) == 0;
}

namespace {

// Returns false if the training was interrupted.
bool run_session(const TuneOptions& options, Ranks* ranks) {
  const TuneOptions complete = with_source(options);
  check_options(complete);
  const bool done = Session(complete, ranks).run();
  if (ranks != nullptr) ranks->leave();
  return done;
}

// Trains on several ranks: rank 0 reports a failure of any rank, and all ranks end.
bool train_with_ranks(const TuneOptions& options) {
  std::unique_ptr<Ranks> ranks = Ranks::start();
  int code = kFailed;
  std::string why;
  bool told = false;
  try {
    return run_session(options, ranks.get());
  } catch (const Error& error) {
    told = dynamic_cast<const Told*>(&error) != nullptr;
    why = error.what();
    code = error.code;
  } catch (const std::exception& error) {
    why = fmt::format("memory or a defect of the tool: {}", error.what());
  }
  ranks->fail(why, code, told);
  ranks.reset();
  std::exit(code);
}

}  // namespace

void tune(const TuneOptions& options) {
  if (options.mpi && caller() != nullptr)
    throw Error(kUnsupported, "--mpi", "is of the command nacre tune alone",
                "start it with mpirun; programs take ports/mpi/nacre_mpi.h");
  const uint32_t processes = started_processes();
  if (!options.mpi && processes > 1)
    throw Error(kUsage, "tune",
                fmt::format("was started {} times by mpirun, and each would train by itself", processes),
                "add --mpi: they share the rows of each step");
  const bool done = options.mpi ? train_with_ranks(options) : run_session(options, nullptr);
  // Ends by the signal that interrupted it, as any program does. A rank without a signal ends by SIGINT, that of
  // Ctrl-C.
  if (!done) end_by_signal(Interrupt::received() == 0 ? SIGINT : Interrupt::received());
}

}  // namespace nacre::tools

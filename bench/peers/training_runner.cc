// Trains one model for training.py, as the peers' workers do: commands on standard input, one line for each on
// standard output.
//
//   training_runner MODEL [--kernels NAME] [--lr X] [--threads N]     MODEL: made by nacre convert --train
//
// The first line of output says as JSON what runs, with the bytes of memory that training takes. The commands, and
// examples of their answers:
//
//   input FILE     takes all inputs of a micro-batch, data and labels               "input 50240"
//   run N          runs N steps on it and says the nanoseconds of all together      "123456"
//   loss           says the loss before the last step                               "2.302585"
//   restart        begins again with the numbers of the file                        "restart"
//   memory         says by how many bytes the process has grown, at its most, since before the model was loaded
//   quit           ends; so does the end of standard input                          "quit"
//
// A step copies the inputs, because the programs reuse their memory, then accumulates and commits.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench_commit.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/files/input_file.h"
#include "tools/model/kernel_choice.h"
#include "tools/tuner/tuner.h"

namespace nacre::bench {
namespace {

using tools::Error;

struct Options {
  std::string model, kernels = "auto";
  float rate = 0.01f;
  uint32_t threads = 1;
};

template <class T>
T number(std::string_view text, const std::string& place) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end() || !(value > 0))
    throw Error(tools::kUsage, place, fmt::format("{} is no positive number", text));
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      options.model = name;
      continue;
    }
    if (i + 1 == argc) throw Error(tools::kUsage, name, "its value is missing");
    if (name == "--kernels") options.kernels = argv[++i];
    else if (name == "--lr") options.rate = number<float>(argv[++i], name);
    else if (name == "--threads") options.threads = number<uint32_t>(argv[++i], name);
    else throw Error(tools::kUsage, name, "there is no such option, only: --kernels, --lr and --threads");
  }
  if (options.model.empty()) throw Error(tools::kUsage, "MODEL", "is required");
  return options;
}

// Returns the peak memory of this process. getrusage would return the peak of the parent, if that was larger.
uint64_t most_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10;
  return 0;
}

class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options), bytes_before_(most_bytes()), model_(options.model),
        port_(tools::port_named(options.kernels)), owner_(model_, tools::Ports{port_}, options.threads) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < trainer().input_count(); ++i) bytes += trainer().input(i).size();
    input_.resize(bytes);
    Places places({&port_, size_t{port_ == nullptr ? 0u : 1u}});
    model_.require(Trainer::measure(model_.model(), nullptr, tools::kernels_of_target(""), &sizes_,
                                    {.workers = options.threads}, port_ == nullptr ? nullptr : &places));
  }

  std::string description() const {
    return tools::Json::object({{"peer", "nacre"},
                                {"version", NACRE_VERSION},
                                {"commit", kCommit},
                                {"compiler", __VERSION__},
                                {"options", tools::Json::object({{"kernels", tools::name_of_port(port_)}})},
                                {"threads", options_.threads},
                                {"training_bytes", sizes_.total()},
                                {"input_bytes", input_.size()}})
        .dump();
  }

  std::string answer(const std::string& command, const std::string& argument) {
    if (command == "input") return take_input(argument);
    if (command == "run") return fmt::format("{}", run(number<int>(argument, "run")));
    if (command == "loss") return fmt::format("{}", report_.loss);
    if (command == "memory") return fmt::format("{}", most_bytes() - bytes_before_);
    if (command == "restart") {
      model_.require(trainer().start());
      return command;
    }
    throw Error(tools::kUsage, command, "there is no such command, only: input, run, loss, memory, restart and quit");
  }

 private:
  Trainer& trainer() { return owner_.trainer(); }

  std::string take_input(const std::string& path) {
    const std::vector<uint8_t> bytes = tools::read_file(path);
    if (bytes.size() != input_.size())
      throw Error(tools::kBadInput, path,
                  fmt::format("has {} bytes, a micro-batch of {} has {}", bytes.size(), options_.model, input_.size()));
    input_ = bytes;
    return fmt::format("input {}", input_.size());
  }

  void step() {
    const uint8_t* from = input_.data();
    for (uint32_t i = 0; i < trainer().input_count(); ++i) {
      const std::span<std::byte> to = trainer().input(i);
      std::memcpy(to.data(), from, to.size());
      from += to.size();
    }
    model_.require(trainer().accumulate());
    model_.require(trainer().commit(options_.rate, &report_));
  }

  int64_t run(int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int n = 0; n < count; ++n) step();
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  }

  const Options options_;
  const uint64_t bytes_before_;
  tools::LoadedModel model_;
  const Port* port_;
  tools::LoadedTrainer owner_;
  Sizes sizes_;
  std::vector<uint8_t> input_;
  Trainer::Report report_;
};

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void serve(Runner& runner) {
  say(runner.description());
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    const size_t blank = line.find(' ');
    say(runner.answer(line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1)));
  }
  say("quit");
}

}  // namespace
}  // namespace nacre::bench

int main(int argc, char** argv) {
  try {
    nacre::bench::Runner runner(nacre::bench::parse(argc, argv));
    nacre::bench::serve(runner);
    return nacre::tools::kSuccess;
  } catch (const nacre::tools::Error& error) {
    fmt::print(stderr, "training_runner: {}\n", error.what());
    return error.code;
  }
}

// Runs one network for networks.py, as the peers' workers do: commands on standard input, one line for each on
// standard output.
//
//   peer_runner MODEL [--kernels NAME] [--threads N] [--batch N] [--policy NAME] [--rounding NAME]
//
// The first line of output says as JSON what runs. The commands, and examples of their answers:
//
//   input FILE     takes the bytes of all inputs, one after the other        "input 640"
//   run N          runs N times and says the nanoseconds of all together     "123456"
//   output FILE    writes the bytes of all outputs of the last run           "output 640"
//   quit           ends; so does the end of standard input                   "quit"
//
// A run includes copying the input into the arena, because the network may reuse that memory.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench_commit.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/base/names.h"
#include "tools/compile/compile.h"
#include "tools/files/atomic_file.h"
#include "tools/files/input_file.h"
#include "tools/graph/graph.h"
#include "tools/importers/importer.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_request.h"

namespace nacre::bench {
namespace {

using tools::Error;

constexpr const char* kHelp =
    "peer_runner MODEL [--kernels NAME] [--threads N] [--batch N] [--policy NAME] [--rounding NAME]\n"
    "Runs a network (.tflite, .onnx, or a converted .nacre) on commands from standard input.\n\n"
    "  --kernels NAME   those of nacre kernels; auto: the fastest that run here [auto]\n"
    "  --threads N      that share the work of large steps [1]\n"
    "  --batch N        samples of a run; a converted model has its own [as in the file]\n"
    "  --policy NAME    of every layer, as in nacre convert; inputs and outputs stay as the file has them [the "
    "file's]\n"
    "  --rounding NAME  double, single or float_even: of int8 results, as in nacre convert [double]\n\n"
    "Commands: input FILE, run N, output FILE, quit. Standard output has one line for each, and before them one line\n"
    "of JSON that says what runs. Exit codes are those of nacre.\n\n"
    "Example: printf 'run 100\\nquit\\n' | peer_runner tools/samples/digits.onnx\n";

constexpr const char* kSeeHelp = "see: peer_runner --help";

struct Options {
  std::string model, kernels = "auto", policy;
  Rounding rounding = Rounding::kDouble;
  int threads = 1, batch = 0;  // 0: the batch of the file
};

// Returns a positive whole number; refuses any text after it.
int count_of(std::string_view text, const std::string& place) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), count);
  if (error != std::errc() || end != text.end() || count < 1)
    throw Error(tools::kUsage, place, fmt::format("{} is no positive whole number", text));
  return count;
}

Rounding rounding_of(const std::string& name) {
  for (const Rounding rounding : {Rounding::kDouble, Rounding::kSingle, Rounding::kFloatEven})
    if (name == tools::name_of(rounding)) return rounding;
  throw Error(tools::kUsage, "--rounding " + name, "there is no such rounding, only: double, single and float_even");
}

void set(Options& options, const std::string& name, const std::string& value) {
  if (name == "--kernels") options.kernels = value;
  else if (name == "--threads") options.threads = count_of(value, name);
  else if (name == "--batch") options.batch = count_of(value, name);
  else if (name == "--policy") options.policy = value;
  else if (name == "--rounding") options.rounding = rounding_of(value);
  else throw Error(tools::kUsage, name, "there is no such option", kSeeHelp);
}

Options parse(std::span<char* const> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (!argument.starts_with('-')) {
      if (!options.model.empty()) throw Error(tools::kUsage, argument, "only one MODEL is run", kSeeHelp);
      options.model = argument;
      continue;
    }
    if (++i == arguments.size()) throw Error(tools::kUsage, argument, "its value is missing", kSeeHelp);
    set(options, argument, arguments[i]);
  }
  if (options.model.empty()) throw Error(tools::kUsage, "MODEL", "is required", kSeeHelp);
  return options;
}

// Converts a network as `nacre convert` does, or opens a model that is converted already.
std::unique_ptr<tools::LoadedModel> load(const Options& options) {
  const std::string& path = options.model;
  std::vector<uint8_t> head(tools::kHeadBytes);
  head.resize(tools::InputFile(path).read(0, head));
  tools::CompileOptions compiling;
  if (tools::sniff(head) == tools::Format::kModel) {
    const auto own = [&](bool given, const char* name) {
      if (given) throw Error(tools::kUsage, name, path + " is converted already, and has its own");
    };
    own(options.rounding != compiling.rounding, "--rounding");
    own(options.batch != 0, "--batch");
    own(!options.policy.empty(), "--policy");
    return std::make_unique<tools::LoadedModel>(path);
  }
  compiling.rounding = options.rounding;
  if (!options.policy.empty()) compiling.policies = tools::parse_policy_options({.policy = options.policy});
  const tools::Compiled compiled = tools::compile(tools::load_network(path, {.batch = options.batch}), compiling);
  return std::make_unique<tools::LoadedModel>(compiled.bytes, path, "");
}

// Binds the program to the kernels and threads that the options name.
std::unique_ptr<tools::BoundProgram> bind(const tools::LoadedModel& model, const Options& options) {
  return std::make_unique<tools::BoundProgram>(model, model.infer_program(), tools::port_named(options.kernels),
                                               uint32_t(options.threads));
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), model_(load(options)) {
    bound_ = bind(*model_, options);
    for (uint32_t i = 0; i < program().input_count(); ++i) input_.resize(input_.size() + program().input(i).size());
    for (uint32_t i = 0; i < program().output_count(); ++i) output_bytes_ += program().output(i).size();
  }

  std::string description() const {
    return tools::Json::object({{"peer", "nacre"},
                                {"version", NACRE_VERSION},
                                {"commit", kCommit},
                                {"compiler", __VERSION__},
                                {"options", settings()},
                                {"threads", options_.threads},
                                {"input_bytes", input_.size()},
                                {"output_bytes", output_bytes_}})
        .dump();
  }

  // Returns the line that answers a command.
  std::string answer(const std::string& command, const std::string& argument) {
    if (command == "input") return take_input(argument);
    if (command == "run") return fmt::format("{}", run(count_of(argument, "run")));
    if (command == "output") return write_output(argument);
    throw Error(tools::kUsage, command, "there is no such command, only: input, run, output and quit");
  }

 private:
  const Program& program() const { return bound_->program(); }
  tools::Json settings() const {
    tools::Json settings = {{"kernels", tools::name_of_ports(bound_->ports())},
                            {"rounding", tools::name_of(options_.rounding)}};
    if (options_.batch != 0) settings["batch"] = options_.batch;
    if (!options_.policy.empty()) settings["policy"] = options_.policy;
    return settings;
  }

  std::string take_input(const std::string& path) {
    const std::vector<uint8_t> bytes = tools::read_file(path);
    if (bytes.size() != input_.size())
      throw Error(tools::kBadInput, path,
                  fmt::format("has {} bytes, the inputs of {} have {}", bytes.size(), options_.model, input_.size()));
    input_ = bytes;
    return fmt::format("input {}", input_.size());
  }

  // Returns the nanoseconds of `count` runs.
  int64_t run(int count) const {
    Status status;
    const auto start = std::chrono::steady_clock::now();
    for (int n = 0; n < count && status.ok(); ++n) {
      const uint8_t* from = input_.data();
      for (uint32_t i = 0; i < program().input_count(); ++i) {
        const std::span<std::byte> to = program().input(i);
        std::memcpy(to.data(), from, to.size());
        from += to.size();
      }
      status = program().run();
    }
    const auto end = std::chrono::steady_clock::now();
    model_->require(status);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  }

  std::string write_output(const std::string& path) const {
    std::vector<uint8_t> bytes;
    for (uint32_t i = 0; i < program().output_count(); ++i) {
      const auto* data = reinterpret_cast<const uint8_t*>(program().output(i).data());
      bytes.insert(bytes.end(), data, data + program().output(i).size());
    }
    tools::write_file_whole(path, bytes);
    return fmt::format("output {}", bytes.size());
  }

  Options options_;
  std::unique_ptr<tools::LoadedModel> model_;
  std::unique_ptr<tools::BoundProgram> bound_;
  std::vector<uint8_t> input_;  // zeros until the first `input` command
  size_t output_bytes_ = 0;
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
    if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
      fmt::print("{}", nacre::bench::kHelp);
      return nacre::tools::kSuccess;
    }
    nacre::bench::Runner runner(nacre::bench::parse({argv + 1, argv + argc}));
    nacre::bench::serve(runner);
    return nacre::tools::kSuccess;
  } catch (const nacre::tools::Error& error) {
    fmt::print(stderr, "peer_runner: {}\n", error.what());
    return error.code;
  }
}

// Declares the functions that add commands to the command line, and the helpers that the files defining them share.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/command.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"
#include "tools/model/running.h"

namespace nacre::tools {

inline constexpr const char* kOfTheTool = "This tool";  // the group of the commands completions and man
// Adds all commands, in the order of --help. If `name` is one of them, adds that command alone.
void add_commands(CLI::App& app, const std::string& name = "");

// models.cc
void add_inspect(CLI::App& app);
void add_size(CLI::App& app);
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_check(CLI::App& app);
void add_kernels(CLI::App& app);
void add_doctor(CLI::App& app);
void add_firmware(CLI::App& app);
// convert.cc
void add_convert(CLI::App& app);
void add_policies(CLI::App& app);
// tune.cc
void add_tune(CLI::App& app);
void add_export(CLI::App& app);
// judge.cc
void add_compare(CLI::App& app);
void add_eval(CLI::App& app);
void add_search(CLI::App& app);
void add_report(CLI::App& app);
// shell.cc
void add_completions(CLI::App& app);
void add_man(CLI::App& app);

// Returns a validator that accepts only these words. Its refusal lists them.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& word) {
        const bool known = std::find(words.begin(), words.end(), word) != words.end();
        return known ? std::string() : "'" + word + "' is not one of " + CLI::detail::join(words, ", ");
      },
      "");
}

inline void add_target(CLI::App& command, std::string& target, const std::string& help) {
  std::vector<std::string> names;
  for (const TargetMachine& machine : machines()) names.emplace_back(machine.name);
  command.add_option("--target", target, help)->check(one_of(names))->type_name(CLI::detail::join(names, "|"));
}

inline void add_kernel_choice(CLI::App& command, std::string& kernels) {
  command
      .add_option("--kernels", kernels,
                  "kernels that run it: those of a tier of this processor, or the reference; on a GPU tf32 "
                  "multiplies float32 with 11 bits [auto: the fastest here]")
      ->check(one_of(kernel_choices()))
      ->type_name(CLI::detail::join(kernel_choices(), "|"));
}

inline void add_shapes(CLI::App& command, std::vector<std::string>& shapes) {
  command.add_option("--shape", shapes, "sizes of axes that the network leaves open, as nacre convert takes them")
      ->allow_extra_args(false)
      ->type_name("NAME=SIZES");
}

inline void add_ignored(CLI::App& command, std::vector<std::string>& ignored) {
  command
      .add_option("--ignore-setting", ignored,
                  "go on without a setting of a network's file that is refused, by the name that the refusal prints")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

inline void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "print JSON, for machines"); }

inline void add_model(Command& command, std::string& model) {
  command.reads(command.add_option("MODEL", model, "model file, made by nacre convert")->required()->type_name(""));
}

// Adds --cast-inputs, which convert, export and tune call --cast-samples. Each command takes both names.
inline void add_cast(CLI::App& command, bool& cast) {
  command.add_flag("--cast-inputs,--cast-samples", cast, "change the type of numbers, where none changes by it");
}

// Returns a validator that accepts decimal digits only, from `low` to `high`. CLI11's own conversion to uint64_t reads
// -1 as 2^64 - 1, 010 as 8, and a number too large for the type as the type's largest.
inline CLI::Validator whole_number(uint64_t low, uint64_t high) {
  const auto judge = [low, high](std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < low || value > high)
      return "'" + text + "' is no whole number from " + std::to_string(low) + " to " + std::to_string(high);
    text = std::to_string(value);
    return std::string();
  };
  return CLI::Validator(judge, "");
}

// Adds an option whose value is a whole number from `low` to `high`.
inline CLI::Option* add_number(CLI::App& command, const std::string& name, auto& value, uint64_t low, uint64_t high,
                               const std::string& help) {
  return command.add_option(name, value, help)->transform(whole_number(low, high))->type_name("N");
}

// Adds --kernels and --threads, for commands that run a model with kernels of the user's choice.
inline void add_running(CLI::App& command, Running& running) {
  add_kernel_choice(command, running.kernels);
  add_number(command, "--threads", running.threads, 1, kMostThreads, "threads that share the work of large steps [1]");
}

}  // namespace nacre::tools

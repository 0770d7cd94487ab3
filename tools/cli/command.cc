#include "tools/cli/command.h"

#include <algorithm>
#include <memory>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

bool given(const CLI::Option* option) { return option->count() > 0; }

}  // namespace

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, "");
}

std::vector<std::string> one_file(const std::string& value) { return {value}; }

std::vector<std::string> file_after_equals(const std::string& value) {
  const size_t equals = value.find('=');
  return {equals == std::string::npos ? value : value.substr(equals + 1)};
}

bool Command::Condition::holds() const {
  return (with.empty() || std::ranges::any_of(with, given)) && std::ranges::none_of(without, given) &&
         (!when || when());
}

CLI::Option* Command::reads(CLI::Option* option, FilesOfValue of_value) {
  inputs_.push_back({option, of_value});
  return option->check(not_empty());
}

CLI::Option* Command::writes(CLI::Option* option, FilesOfValue of_value) {
  outputs_.push_back({option, of_value});
  return option->check(not_empty());
}

std::vector<const CLI::Option*> Command::named(const Names& names) const {
  std::vector<const CLI::Option*> options;
  for (const std::string& name : names) options.push_back(get_option(name));
  return options;
}

void Command::only_with(const Names& options, const Names& with, const Idle& idle) {
  for (const CLI::Option* option : named(options)) conditions_.push_back({option, named(with), {}, {}, idle});
}

void Command::not_with(const Names& options, const Names& without, const Idle& idle) {
  for (const CLI::Option* option : named(options)) conditions_.push_back({option, {}, named(without), {}, idle});
}

void Command::only_when(const Names& options, const std::function<bool()>& when, const Idle& idle) {
  for (const CLI::Option* option : named(options)) conditions_.push_back({option, {}, {}, when, idle});
}

void Command::runs(const std::function<void()>& work) {
  callback([this, work] {
    CommandInputs inputs;
    judge(inputs);
    work();
  });
}

void Command::judge(CommandInputs& inputs) {
  for (const Condition& condition : conditions_)
    if (given(condition.option) && !condition.holds())
      throw Error(kUsage, name_of(*condition.option), condition.idle.fact, condition.idle.remedy);
  for (const NamedFiles& input : inputs_)
    for (const std::string& value : input.option->results())
      for (const std::string& path : input.files(value)) {
        files_.add_input(name_of(*input.option), path);
        inputs.hold(path);
      }
  for (const NamedFiles& output : outputs_)
    for (const std::string& value : output.option->results())
      for (const std::string& path : output.files(value)) files_.add_output(name_of(*output.option), path);
}

Command& add_command(CLI::App& app, const std::string& name, const std::string& description) {
  const auto command = std::make_shared<Command>(name, description);
  app.add_subcommand(command);
  return *command;
}

std::string name_of(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return names.empty() ? option.get_name(true) : "--" + names[0];
}

}  // namespace nacre::tools

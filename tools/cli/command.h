// Command: one command of the command line. Besides what CLI11 knows about an option, it holds which files the option
// names and when the option acts. It checks files and conditions before the command works:
//
//   Command& c = add_command(app, "inspect", "what is in a model file");
//   c.reads(c.add_option("MODEL", o->model, "..."));
//   c.writes(c.add_option("--svg", o->svg, "picture to write"));
//   c.only_with({"--target"}, {"--svg"}, {"chooses what is drawn, and nothing is", "add --svg FILE"});
//   c.runs([o] { inspect(*o); });
//
// No output may be an input or another output (command_files.h). An option that could not act is refused with an Error.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tools/files/command_files.h"
#include "tools/files/input_file.h"

namespace nacre::tools {

// Returns a validator that refuses "". For many options "" would mean "none", but an empty shell variable is a mistake.
CLI::Validator not_empty();

// Returns the files that the value of an option names.
using FilesOfValue = std::vector<std::string> (*)(const std::string& value);
std::vector<std::string> one_file(const std::string& value);           // the value itself, a file or a folder
std::vector<std::string> file_after_equals(const std::string& value);  // "NAME=FILE", or "FILE"

// The words of the Error for an option that cannot act.
struct Idle {
  std::string fact, remedy;
};

class Command : public CLI::App {
 public:
  struct NamedFiles {
    const CLI::Option* option;
    FilesOfValue files;
  };
  // The option acts only if one of `with` is given, none of `without`, and `when` is true. Empty ones demand nothing.
  struct Condition {
    const CLI::Option* option;
    std::vector<const CLI::Option*> with, without;
    std::function<bool()> when;
    Idle idle;

    bool holds() const;
  };
  using Names = std::vector<std::string>;

  Command(const std::string& name, const std::string& description) : CLI::App(description, name) {}

  // Declare that the option names files to read, or to write. Both return the option, whose value must not be empty.
  CLI::Option* reads(CLI::Option* option, FilesOfValue of_value = one_file);
  CLI::Option* writes(CLI::Option* option, FilesOfValue of_value = one_file);

  void only_with(const Names& options, const Names& with, const Idle& idle);
  void not_with(const Names& options, const Names& without, const Idle& idle);
  void only_when(const Names& options, const std::function<bool()>& when, const Idle& idle);

  void runs(const std::function<void()>& work);  // sets the work, which begins once every option was checked

  const CommandFiles& files() const { return files_; }  // valid while the command runs
  const std::vector<NamedFiles>& inputs() const { return inputs_; }
  const std::vector<NamedFiles>& outputs() const { return outputs_; }
  const std::vector<Condition>& conditions() const { return conditions_; }

 private:
  std::vector<const CLI::Option*> named(const Names& names) const;
  void judge(CommandInputs& inputs);

  std::vector<NamedFiles> inputs_, outputs_;
  std::vector<Condition> conditions_;
  CommandFiles files_;
};

Command& add_command(CLI::App& app, const std::string& name, const std::string& description);

// Returns an option's name as a user knows it: "--svg", "MODEL".
std::string name_of(const CLI::Option& option);

}  // namespace nacre::tools

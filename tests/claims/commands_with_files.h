// A working example of every command of nacre, with a file for everything that the command can read.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/run_tool.h"

namespace nacre::test {

using Words = std::vector<std::string>;

struct IdleLine {
  Words words;
  std::string option;  // the option that has no effect there
};

class CommandsWithFiles {
 public:
  using Example = std::map<std::string, Words>;  // values by the option's name, and positionals
  using Outputs = std::vector<std::pair<std::string, std::string>>;

  CommandsWithFiles();

  bool has(const std::string& command) const { return examples_.contains(command); }
  const Example& example(const std::string& command) const { return examples_.at(command).inputs; }

  // Returns a whole command. If `outputs` lacks an output that the command must write, that output gets a fresh path.
  Words line(const std::string& command, const Outputs& outputs);
  // Returns a command with as few options as it needs, and without the options in `without`.
  Words least_line(const std::string& command, const std::set<std::string>& without);
  // Returns a command in which this option, whose condition says `fact`, has no effect; empty if none is known.
  Words line_without_condition(const std::string& command, const std::string& option, const std::string& fact);
  // Commands with an option that has no effect because of the other options, or of what the files hold.
  const std::vector<IdleLine>& idle_lines() const { return idle_; }

  std::vector<std::string> inputs_of(const std::string& command) const;                  // paths of its input files
  const std::map<std::string, std::vector<uint8_t>>& inputs() const { return before_; }  // all files, with bytes
  bool unchanged() const;

  // Returns other paths to this file: itself, a path with "..", a link, a hard link.
  std::vector<std::string> spellings(const std::string& file);
  // Returns a value of the output's option with which the command would overwrite the file. For an output that is a
  // folder, it is the folder that holds the file.
  std::string aim(const std::string& command, const std::string& output, const std::string& file);
  // Returns the value of `other` with which it would write the same file as `output` with `value`.
  static std::string same_file(const std::string& command, const std::string& output, const std::string& other,
                               const std::string& value);
  std::string fresh();  // a path where no file exists

 private:
  struct Command {
    Example inputs;
    Words words;       // other words of the command
    Words must_write;  // options that the command must write
  };

  void make_arrays();
  void make_models();
  void add_examples();
  void add_idle_lines();
  std::string file(const std::string& name) const { return (work_.path() / "inputs" / name).string(); }

  tools::TemporaryDirectory work_;
  std::map<std::string, Command> examples_;
  std::map<std::string, std::vector<uint8_t>> before_;
  std::vector<IdleLine> idle_;
  int made_ = 0;
};

}  // namespace nacre::test

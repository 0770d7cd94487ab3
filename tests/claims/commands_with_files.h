// A working example of every command of nacre, with a file of its own for everything that the command can be given to
// read.
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
  std::string option;  // that cannot act there
};

class CommandsWithFiles {
 public:
  using Example = std::map<std::string, Words>;  // values by the option's name; positionals too
  using Outputs = std::vector<std::pair<std::string, std::string>>;

  CommandsWithFiles();

  bool has(const std::string& command) const { return examples_.contains(command); }
  const Example& example(const std::string& command) const { return examples_.at(command).inputs; }

  // Returns a whole command. If `outputs` lacks an output that the command must write, the output gets a fresh path.
  Words line(const std::string& command, const Outputs& outputs);
  // Returns a command with as few options as it needs, none of them in `without`.
  Words least_line(const std::string& command, const std::set<std::string>& without);
  // Returns a command in which this option, whose condition says `fact`, cannot act; empty if none is known.
  Words line_without_condition(const std::string& command, const std::string& option, const std::string& fact);
  // Options that cannot act for what the files hold.
  const std::vector<IdleLine>& idle_lines() const { return idle_; }

  std::vector<std::string> inputs_of(const std::string& command) const;                  // files
  const std::map<std::string, std::vector<uint8_t>>& inputs() const { return before_; }  // all, with their bytes
  bool unchanged() const;

  // Other paths that lead to this file: itself, with "..", a link, a hard link.
  std::vector<std::string> spellings(const std::string& file);
  // A value of the output's option by which the command would write over the file: of a folder, one that holds it.
  std::string aim(const std::string& command, const std::string& output, const std::string& file);
  // The value of `other` by which it would write the file that `output` with `value` writes.
  static std::string same_file(const std::string& command, const std::string& output, const std::string& other,
                               const std::string& value);
  std::string fresh();  // a place where nothing is

 private:
  struct Command {
    Example inputs;
    Words words;       // beside them
    Words must_write;  // options
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

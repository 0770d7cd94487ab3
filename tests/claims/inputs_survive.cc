// Claim: no output of a command overwrites one of its inputs or another output. An option that cannot act is refused
// by name.
//
// The list of options is CLI11's own list for every command, so it has every new option. Every option that takes a
// value, but an input, gets the path of every file that the command reads, also if it declares no output; afterwards no
// file may have changed. A declared output also gets that path through "..", a link and a hard link, and must be
// refused; with another path the output must be made. Every option that is declared to act only on some condition is
// given when the condition does not hold. conditions.txt lists the conditions, so that none is lost with its
// declaration; `claims inputs_survive conditions` prints that file.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "tests/claims/claims.h"
#include "tests/claims/commands_with_files.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/cli/cli.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;
namespace fs = std::filesystem;

struct Failure {
  std::string why;
};
void require(bool holds, const std::string& why) {
  if (!holds) throw Failure{why};
}

std::string text_of(const Words& words) {
  std::string text = "nacre";
  for (const std::string& word : words) text += " " + fs::path(word).filename().string();
  return text;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Returns a value that is no file, as the option's own help describes it.
std::string sample_value(const std::string& command, const CLI::Option& option) {
  static const std::map<std::string, std::string> kByType = {{"N", "2"},
                                                             {"K", "1"},
                                                             {"X", "0.5"},
                                                             {"M", "0.5"},
                                                             {"D", "0.5"},
                                                             {"P", "99"},
                                                             {"T", "1000"},
                                                             {"RANK", "2"},
                                                             {"BYTES", "1M"},
                                                             {"POLICY", "float32"},
                                                             {"PATTERN=POLICY", "fc=float32"},
                                                             {"OPS", "dense"},
                                                             {"OP,...", "Add"},
                                                             {"PATTERN", "fc"},
                                                             {"PATTERN=METHOD", "fc=mse"},
                                                             {"PATTERN=SHARE|FIRST:END", "fc=0.5"},
                                                             {"dynamic=X", "dynamic=0.5"},
                                                             {"LOSS", "softmax_cross_entropy"},
                                                             {"LOSS[,FIELD=X]", "softmax_cross_entropy"},
                                                             {"NAME[,FIELD=X]", "sgd"},
                                                             {"LAYER,...", "fc"},
                                                             {"NAME", "fc"},
                                                             {"NAME=BYTES,...", "sram=1M"},
                                                             {"NAME=SIZES", "x=1x4"},
                                                             {"IN=OUT", "x=y"},
                                                             {"INPUT=MEAN,STD", "pixels=8,16"},
                                                             {"LEVEL", "UNSAFE_FORCE_ALL"},
                                                             {"RULE", "tf"},
                                                             {"PASS", "import"},
                                                             {"METRIC", "top1"},
                                                             {"OUTPUT", "probabilities"},
                                                             {"TARGET", "host"},
                                                             {"TARGET,...", "host"},
                                                             {"STEPS", "10"},
                                                             {"xnnpack=STEPS", "xnnpack=0"},
                                                             {"POLICY,...", "float32,bfloat16"}};
  const std::string type = option.get_type_name();
  if (const auto found = kByType.find(type); found != kByType.end()) return found->second;
  if (type.find("FILE") != std::string::npos || type.find("DATA") != std::string::npos || type == "MODEL")
    return "nowhere";
  const size_t bar = type.find('|');
  require(bar != std::string::npos, "no value is known for " + name_of(option) + " of " + command + ", a " + type);
  return type.substr(0, bar);
}

Words given(const std::string& command, const CLI::Option& option) {
  if (!takes_value(option)) return {name_of(option)};
  return {name_of(option), sample_value(command, option)};
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string list_of(const std::vector<const CLI::Option*>& options) {
  std::string text;
  for (const CLI::Option* option : options) text += " " + name_of(*option);
  return text;
}

// Returns a line for every condition: "convert --golden needs --output". If a function judges a condition, the line
// has what the function says.
std::vector<std::string> declared_conditions() {
  CLI::App app;
  add_commands(app);
  std::vector<std::string> lines;
  for (const CLI::App* each : app.get_subcommands({})) {
    const auto& command = dynamic_cast<const Command&>(*each);
    for (const Command::Condition& c : command.conditions()) {
      const std::string option = command.get_name() + " " + name_of(*c.option);
      if (!c.with.empty()) lines.push_back(option + " needs" + list_of(c.with));
      if (!c.without.empty()) lines.push_back(option + " never with" + list_of(c.without));
      if (c.when) lines.push_back(option + " not where it " + c.idle.fact);
    }
  }
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> committed_conditions() {
  std::ifstream file(project_path("tests/claims/conditions.txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void check_committed() {
  const std::vector<std::string> declared = declared_conditions(), committed = committed_conditions();
  for (const std::string& line : committed)
    require(std::ranges::binary_search(declared, line),
            "conditions.txt has a condition that no command declares any more: " + line);
  for (const std::string& line : declared)
    require(std::ranges::find(committed, line) != committed.end(), "a condition is missing in conditions.txt: " + line);
  require(declared.size() == committed.size(),
          "conditions.txt has a line twice, or a command declares a condition twice");
}

class AimedOutputs {
 public:
  void run() {
    check_committed();
    CLI::App app;
    add_commands(app);
    for (const CLI::App* each : app.get_subcommands({})) {
      const auto& command = dynamic_cast<const Command&>(*each);
      const std::string name = command.get_name();
      require(files_.has(name), "nacre " + name + " has no example here");
      check_declared(command);
      for (const Command::NamedFiles& output : command.outputs()) check_output(command, *output.option);
      for (const CLI::Option* option : command.get_options())
        if (takes_value(*option) && !option->get_positional()) aim_anything(command, *option);
      check_conditions(command);
      ++commands_;
    }
    check_shift_digits();
    for (const IdleLine& line : files_.idle_lines()) expect_idle(line.words, line.option);
    std::printf(
        "CLAIM inputs_survive shown: %d commands and shift_digits, %d outputs aimed at inputs %d times and at each "
        "other %d "
        "times, each refused; %d other options with a value aimed at inputs %d times; 0 of %zu files changed; %d "
        "conditions of "
        "%zu options and %zu more ways to do nothing refused by name\n",
        commands_, outputs_, aimed_, twice_, others_, aimed_others_, files_.inputs().size(), conditions_,
        conditioned_.size(), files_.idle_lines().size());
  }

 private:
  static bool declared(const std::vector<Command::NamedFiles>& named, const CLI::Option& option) {
    return std::ranges::any_of(named, [&](const Command::NamedFiles& each) { return each.option == &option; });
  }

  // Checks that every input of the command has a file here, and that each option whose help says "file" is declared
  // one.
  void check_declared(const Command& command) const {
    const std::string name = command.get_name();
    for (const Command::NamedFiles& input : command.inputs())
      require(files_.example(name).contains(name_of(*input.option)),
              name_of(*input.option) + " of nacre " + name + " has no file here");
    for (const CLI::Option* option : command.get_options()) {
      const std::string type = option->get_type_name();
      bool file = option->get_positional() && name != "policies" && name != "completions";
      for (const char* word : {"FILE", "DIR", "DATA", "MODEL", ".npy"})
        file = file || type.find(word) != std::string::npos;
      require(!file || declared(command.inputs(), *option) || declared(command.outputs(), *option),
              name_of(*option) + " of nacre " + name +
                  " names a file and declares neither that it reads nor that it writes");
    }
  }

  void check_output(const Command& command, const CLI::Option& option) {
    const std::string name = command.get_name(), output = name_of(option);
    const std::string fresh = files_.fresh();
    const ToolRun made = run_tool(files_.line(name, {{output, fresh}}));
    require(made.exit_code == 0, text_of(files_.line(name, {{output, fresh}})) + ": " + made.err);
    require(fs::exists(fresh), output + " of nacre " + name + " made nothing: this test would see nothing");
    ++outputs_;
    for (const std::string& input : files_.inputs_of(name))
      for (const std::string& spelling : files_.spellings(input)) {
        const std::string aim = files_.aim(name, output, spelling);
        if (aim.empty()) continue;
        expect_refusal(files_.line(name, {{output, aim}}), "would be overwritten");
        ++aimed_;
      }
    for (const Command::NamedFiles& other : command.outputs()) {
      if (other.option == &option) continue;
      const std::string second = name_of(*other.option), one = files_.fresh();
      const std::string same = CommandsWithFiles::same_file(name, output, second, one);
      expect_refusal(files_.line(name, {{output, one}, {second, same}}), "would be overwritten");
      require(!fs::exists(one), text_of({name, output}) + " made something before it was refused");
      ++twice_;
    }
  }

  // Gives the option the path of an input, whatever the option is. Nothing may change.
  void aim_anything(const Command& command, const CLI::Option& option) {
    const std::string name = command.get_name(), text = name_of(option);
    if (declared(command.outputs(), option) || declared(command.inputs(), option)) return;
    if (nacre::test::sanitized()) return;  // five hundred whole commands, which the plain build runs
    ++others_;
    for (const std::string& input : files_.inputs_of(name)) {
      const Words line = files_.line(name, {}) + Words{text, input};
      run_tool(line);
      require(files_.unchanged(), text_of(line) + " changed an input");
      ++aimed_others_;
    }
  }

  void expect_refusal(const Words& line, const std::string& part) {
    const ToolRun run = run_tool(line);
    require(files_.unchanged(), text_of(line) + " changed an input");
    require(run.exit_code == 2 && run.err.starts_with("nacre: ") && run.err.find(part) != std::string::npos,
            text_of(line) + " was not refused: " + std::to_string(run.exit_code) + " " + run.err);
  }

  void check_conditions(const Command& command) {
    const std::string name = command.get_name();
    for (const Command::Condition& condition : command.conditions()) {
      const CLI::Option& option = *condition.option;
      conditioned_.insert(name + name_of(option));
      if (!condition.with.empty()) {
        std::set<std::string> without;
        for (const CLI::Option* other : condition.with) without.insert(name_of(*other));
        expect_condition(files_.least_line(name, without) + given(name, option), condition);
      }
      for (const CLI::Option* other : condition.without) {
        Words line = files_.least_line(name, {});
        if (std::ranges::find(line, name_of(*other)) == line.end()) line = line + given(name, *other);
        expect_condition(line + given(name, option), condition);
      }
      if (condition.when) {
        const Words line = files_.line_without_condition(name, name_of(option), condition.idle.fact);
        require(!line.empty(), "no line is here in which " + name_of(option) + " of nacre " + name +
                                   " cannot act: " + condition.idle.fact);
        expect_condition(line + given(name, option), condition);
      }
    }
  }

  void expect_condition(const Words& line, const Command::Condition& condition) {
    const ToolRun run = run_tool(line);
    const std::string begin = "nacre: " + name_of(*condition.option) + ": ";
    require(run.exit_code == 2 && run.err.starts_with(begin),
            text_of(line) + ": '" + run.err + "' instead of " + begin + condition.idle.fact);
    ++conditions_;
  }

  // Tries the one sample program that writes, with the folder that holds its own images.
  void check_shift_digits() {
    const fs::path program = fs::path(std::getenv("NACRE_TOOL")).parent_path() / "shift_digits";
    const fs::path folder = fs::path(files_.fresh()).parent_path();
    const std::string samples = project_path("tools/samples/"), images = (folder / "test_images.npy").string();
    fs::copy_file(samples + "digits_images.npy", images);
    const std::string line =
        program.string() + " " + images + " " + samples + "digits_labels.npy " + samples + "digits_test.npy inverted ";
    const int refused = std::system((line + folder.string() + " 2>" + files_.fresh()).c_str());
    require(WIFEXITED(refused) && WEXITSTATUS(refused) == 2, "shift_digits was not refused");
    require(read_bytes(images) == read_bytes(samples + "digits_images.npy"), "shift_digits changed its images");
    require(std::system((line + (folder / "out").string()).c_str()) == 0, "shift_digits does not run");
  }

  void expect_idle(const Words& line, const std::string& option) {
    const ToolRun run = run_tool(line);
    require(run.exit_code != 0 && run.err.starts_with("nacre: " + option),
            text_of(line) + ": '" + run.err + "' does not name " + option);
    require(files_.unchanged(), text_of(line) + " changed an input");
  }

  CommandsWithFiles files_;
  std::set<std::string> conditioned_;
  int commands_ = 0, outputs_ = 0, aimed_ = 0, twice_ = 0, others_ = 0, aimed_others_ = 0, conditions_ = 0;
};

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(inputs_survive) {
  if (count > 1 && std::string(arguments[1]) == "conditions") {
    for (const std::string& line : nacre::test::declared_conditions()) std::printf("%s\n", line.c_str());
    return 0;
  }
  try {
    nacre::test::AimedOutputs().run();
    return 0;
  } catch (const nacre::test::Failure& failure) {
    std::printf("CLAIM inputs_survive NOT SHOWN: %s\n", failure.why.c_str());
  } catch (const std::exception& error) {
    std::printf("CLAIM inputs_survive NOT SHOWN: %s\n", error.what());
  }
  return 1;
}

// Runs the command `nacre`: reads options into structs, calls tools/commands, and prints an Error as a message.
#include "tools/cli/tool.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tools/base/colour.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/nearest.h"
#include "tools/base/print.h"
#include "tools/base/standard_streams.h"
#include "tools/cli/cli.h"
#include "tools/cli/version.h"
#include "tools/files/atomic_file.h"

namespace nacre::tools {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 bad input, 4 not supported, 5 reading or writing failed.\n"
    "Every file is written whole or not at all. Each command has its own --help with an example.\n"
    "A standard stream that is closed counts as the null device.\n"
    "Environment: NACRE_PROGRESS_MS, how long a line of progress on a terminal waits [500]; 0: every step is shown.\n"
    "NO_COLOR, if it is not empty, turns the colours of words on a terminal off; so does TERM=dumb.";

// Returns the message for a word that is neither a command nor an option. It suggests the nearest commands or options.
std::string words_of_extra(const CLI::App& app, const std::string& extra) {
  std::vector<std::string> names;
  const std::vector<CLI::App*> used = app.get_subcommands();
  const bool option = extra.starts_with('-');
  if (used.empty() && !option)
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
  if (option)
    for (const CLI::Option* each : (used.empty() ? &app : used.front())->get_options())
      for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
  const std::string near = alternatives(nearest_names(extra.substr(0, extra.find('=')), names));
  const char* const what = !used.empty() ? "this command has no such option or argument"
                           : option      ? "there is no such option"
                                         : "there is no such command";
  return extra + ": " + what + (near.empty() ? "" : "; did you mean " + near + "?");
}

// Returns CLI11's error in this tool's words. CLI11's text has the option before the first ": " ("--batch: ...") or
// after it (": --batch = x"). A missing argument ("MODEL is required") has no ": " and stays as it is.
std::string words_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string said = error.what();
  const size_t colon = said.find(": ");
  const std::string before = said.substr(0, colon), behind = colon == std::string::npos ? "" : said.substr(colon + 2);
  switch (CLI::ExitCodes(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError: {
      const std::vector<std::string> extras = app.remaining(true);
      return extras.empty() ? behind + ": this command has no such option or argument" : words_of_extra(app, extras[0]);
    }
    case CLI::ExitCodes::RequiredError: return before;  // "MODEL is required"
    case CLI::ExitCodes::ConversionError:
      return behind.substr(0, behind.find(" = ")) + ": its value is of another kind than it takes";
    case CLI::ExitCodes::ArgumentMismatch: return before + ": is given twice, or takes another number of values";
    case CLI::ExitCodes::ValidationError: return before + ": " + behind;  // from the validators in cli.h
    default: return before + ": cannot be used so";
  }
}

// Prints a message about wrong usage, with the command's own --help as the remedy. Returns the exit code.
int refuse_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  const std::string command = used.empty() ? "nacre" : "nacre " + used.front()->get_name();
  complain_of(fmt::format("{}{}\n    see: {} --help", used.empty() ? "" : used.front()->get_name() + ": ",
                          escaped(words_of(app, error)), command));
  return kUsage;
}

bool names_files(const std::vector<Command::NamedFiles>& all, const CLI::Option* option) {
  return std::ranges::find(all, option, &Command::NamedFiles::option) != all.end();
}

Json option_json(const Command& command, const CLI::Option& option) {
  const bool flag = option.get_items_expected_max() == 0;
  return {{"name", option.get_lnames().empty() ? option.get_name() : option.get_lnames()[0]},
          {"value", flag                             ? ""
                    : option.get_type_name().empty() ? "VALUE"
                                                     : option.get_type_name()},
          {"help", option.get_description()},
          {"group", option.get_group()},
          {"many", option.get_items_expected_max() > 1},
          {"reads", names_files(command.inputs(), &option)},
          {"writes", names_files(command.outputs(), &option)}};
}

// Flushes printed text that may still be in a buffer. Reports a failed write. Returns the exit code.
int flush_output() {
  const int error = flush_printed();
  if (error == 0) return kSuccess;
  complain_of(
      fmt::format("standard output: cannot be written: {}\n    {}", std::strerror(error), remedy_of_write(error)));
  return kIo;
}

// Refuses "--csv=" without a value: CLI11 would take the next word for the value, even an option.
void require_values(std::span<const std::string> words) {
  for (const std::string& word : words)
    if (word == "--") return;
    else if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw Error(kUsage, word.substr(0, word.size() - 1), "is given an empty value",
                  "give one behind =, or drop the option");
}

// Reports that memory ran out where no code had checked the size before. Returns the exit code.
int refuse_memory() {
  rlimit limit = {};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  complain_of(limited ? fmt::format("memory: this needs more than its limit of {} bytes\n    raise the limit "
                                    "(ulimit -v), or give it less at once, with a smaller --batch",
                                    grouped(limit.rlim_cur))
                      : "memory: this machine has not enough for that\n    give it less at once, with a smaller "
                        "--batch");
  return kFailed;
}

}  // namespace

void run_command(std::vector<std::string> words) {
  CLI::App app("", "nacre");
  if (words.empty()) throw Error(kUsage, "command", "none was given");
  require_values(words);
  app.require_subcommand(0, 1);
  add_commands(app, words[0]);
  std::ranges::reverse(words);  // CLI11 takes them in reverse
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success&) {
    print(app.help());
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> used = app.get_subcommands();
    throw Error(kUsage, used.empty() ? "nacre" : used.front()->get_name(), words_of(app, error));
  }
}

Json command_table() {
  CLI::App app("", "nacre");
  add_commands(app);
  Json table = Json::array();
  for (const CLI::App* each : app.get_subcommands(nullptr)) {
    if (each->get_group() == kOfTheTool) continue;             // about the command line itself
    const auto& command = static_cast<const Command&>(*each);  // add_command makes no other type
    Json arguments = Json::array(), options = Json::array();
    for (const CLI::Option* option : command.get_options()) {
      if (option == command.get_help_ptr()) continue;
      (option->get_positional() ? arguments : options).push_back(option_json(command, *option));
    }
    table.push_back({{"name", command.get_name()},
                     {"help", command.get_description()},
                     {"arguments", arguments},
                     {"options", options}});
  }
  return table;
}

int run_tool(int argc, char** argv) {
  if (!open_standard_streams()) return kIo;  // without streams there is nowhere to report it
  remove_temporaries_on_signals();
  CLI::App app("Converts neural networks into model files that run in the caller's memory, and runs them.", "nacre");
  app.footer(kExitCodes);
  app.set_version_flag("--version", [] { return version_text(); }, "the version, the build, and what runs here");
  app.require_subcommand(0, 1);
  add_commands(app);
  try {
    require_values(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw Error(kUsage, "command", "none was given", "see: nacre --help");
    return flush_output();
  } catch (const CLI::CallForVersion& version) {
    print(version.what() + std::string("\n"));
    return flush_output();
  } catch (const CLI::Success&) {
    print(app.help());
    return flush_output();
  } catch (const CLI::ParseError& error) {
    return refuse_usage(app, error);
  } catch (const Error& error) {
    flush_printed();
    complain_of(error.what());
    return error.code;
  } catch (const std::bad_alloc&) {
    return refuse_memory();
  } catch (const std::length_error&) {
    return refuse_memory();
  } catch (const std::exception&) {
    complain_of("internal error: this is a defect of the tool\n    report it with the command and its files");
    return kFailed;
  }
}

}  // namespace nacre::tools

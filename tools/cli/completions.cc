#include "tools/cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/cli/option_words.h"

namespace nacre::tools {
namespace {

using Options = std::vector<const CLI::Option*>;

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

Options named_options(const CLI::App& command) {
  Options options;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty() && !option->get_positional()) options.push_back(option);
  return options;
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> all_spellings(const CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : named_options(command))
    for (const std::string& name : spellings(*option)) all.push_back(name);
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Quotes a text for a shell with single quotes.
std::string shell_quoted(std::string_view text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

std::string first_words(const std::string& help) {
  const std::string_view line = std::string_view(help).substr(0, help.find('\n'));
  return std::string(line.substr(0, std::min<size_t>(line.find("; "), 100)));
}

// ---- bash ----

std::string bash(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  std::string values, options;
  for (const CLI::App* command : commands_of(app)) {
    options += fmt::format("    {}) names={} ;;\n", command->get_name(),
                           shell_quoted(fmt::format("{}", fmt::join(all_spellings(*command), " "))));
    for (const CLI::Option* option : named_options(*command)) {
      if (!takes_value(*option)) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : spellings(*option))
        patterns.push_back(fmt::format("'{} {}'", command->get_name(), name));
      const std::vector<std::string> words = words_of_value(*option);
      const std::string list = shell_quoted(fmt::format("{}", fmt::join(words, " ")));
      const std::string made = !words.empty()        ? "$(compgen -W " + list + " -- \"$cur\")"
                               : names_file(*option) ? "$(compgen -f -- \"$cur\")"
                                                     : "";
      values += fmt::format("    {}) COMPREPLY=({}); return ;;\n", fmt::join(patterns, " | "), made);
    }
  }
  return fmt::format(
      "# bash completions of nacre, made by: nacre completions bash\n"
      "_nacre() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= names= word\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case $word in {}) command=$word; break ;; esac\n"
      "  done\n"
      "  if [[ -z $command ]]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$command $prev\" in\n{}  esac\n"
      "  case $command in\n{}  esac\n"
      "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$names\" -- \"$cur\"))\n"
      "  else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
      "}}\n"
      "complete -o filenames -F _nacre nacre\n",
      fmt::join(names, "|"), fmt::join(names, " "), values, options);
}

// ---- zsh ----

// Escapes a text for zsh's _arguments and _describe: puts a backslash before each of the characters [ ] : \.
std::string zsh_text(std::string_view text) {
  std::string made;
  for (const char c : text) made += std::string_view("[]:\\").find(c) == std::string_view::npos ? "" : "\\", made += c;
  return made;
}

std::string zsh(const CLI::App& app) {
  std::string list, cases;
  for (const CLI::App* command : commands_of(app)) {
    list += fmt::format("    {}\n",
                        shell_quoted(command->get_name() + ":" + zsh_text(first_words(command->get_description()))));
    cases += fmt::format("    {})\n      _arguments -S \\\n", command->get_name());
    for (const CLI::Option* option : named_options(*command)) {
      const std::vector<std::string> words = words_of_value(*option);
      const std::string value = !takes_value(*option) ? ""
                                : !words.empty()      ? fmt::format(":value:({})", fmt::join(words, " "))
                                : names_file(*option) ? ":file:_files"
                                                      : ":value: ";
      for (const std::string& name : spellings(*option))
        cases += fmt::format(
            "        {} \\\n",
            shell_quoted(fmt::format("*{}[{}]{}", name, zsh_text(first_words(option->get_description())), value)));
    }
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(
      "#compdef nacre\n"
      "# zsh completions of nacre, made by: nacre completions zsh\n"
      "_nacre() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    _arguments '--help[print help]' '--version[print the version]'\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n"
      "}}\n"
      "if [[ $funcstack[1] == _nacre ]]; then _nacre \"$@\"; else compdef _nacre nacre; fi\n",
      list, cases);
}

// ---- fish ----

std::string fish_quoted(std::string_view text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return made + "'";
}

std::string fish(const CLI::App& app) {
  std::string text = "# fish completions of nacre, made by: nacre completions fish\n";
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("complete -c nacre -f -n __fish_use_subcommand -a {} -d {}\n", command->get_name(),
                        fish_quoted(first_words(command->get_description())));
    for (const CLI::Option* option : named_options(*command)) {
      text += fmt::format("complete -c nacre -n '__fish_seen_subcommand_from {}'", command->get_name());
      for (const std::string& name : option->get_snames()) text += " -s " + name;
      for (const std::string& name : option->get_lnames()) text += " -l " + name;
      const std::vector<std::string> words = words_of_value(*option);
      if (!words.empty()) text += fmt::format(" -x -a {}", fish_quoted(fmt::format("{}", fmt::join(words, " "))));
      else if (takes_value(*option)) text += names_file(*option) ? " -r -F" : " -x";
      text += fmt::format(" -d {}\n", fish_quoted(first_words(option->get_description())));
    }
  }
  return text;
}

}  // namespace

std::string completions(const CLI::App& app, Shell shell) {
  switch (shell) {
    case Shell::kBash: return bash(app);
    case Shell::kZsh: return zsh(app);
    default: return fish(app);
  }
}

}  // namespace nacre::tools

#include "tools/cli/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/base/version.h"

namespace nacre::tools {
namespace {

// Escapes a text for roff: backslashes, hyphens, and a dot or a single quote at the beginning of a line.
std::string roff(std::string_view text) {
  std::string made;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) made += "\\&";
    if (c == '\\') made += "\\e";
    else if (c == '-') made += "\\-";
    else if (c == '|') made += "|\\:";  // a line may break after it
    else made += c;
    begins = c == '\n';
  }
  return made;
}

std::string title(const std::string& name) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return char(std::toupper(static_cast<unsigned char>(c))); });
  return fmt::format(".TH {} 1 \"\" \"nacre {}\" \"Nacre\"\n.nh\n.ad l\n", roff(upper), kVersion);
}

std::string listing(std::string_view text) { return ".nf\n" + roff(text) + "\n.fi\n"; }

std::string option_text(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "\\-" : ", \\-") + roff(name);
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "\\-\\-" : ", \\-\\-") + roff(name);
  if (names.empty()) names = roff(option.get_name(true));
  const std::string value =
      option.get_items_expected_max() > 0 && !option.get_positional() ? option.get_type_name() : "";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", names, value.empty() ? "" : " \\fI" + roff(value) + "\\fR",
                     roff(option.get_description()));
}

std::string options_text(const CLI::App& app) {
  std::string text;
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && std::ranges::find(groups, option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  for (const std::string& group : groups) {
    text += fmt::format(".SH {}\n", roff(group));
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group) text += option_text(*option);
  }
  return text;
}

std::string synopsis(const CLI::App& command) {
  std::string text = fmt::format(".SH Synopsis\n\\fBnacre {}\\fR", roff(command.get_name()));
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      text += fmt::format(fmt::runtime(option->get_required() ? " \\fI{}\\fR" : " [\\fI{}\\fR]"),
                          roff(option->get_name(true)));
  return text + " [options]\n";
}

ManualPage page_of(const CLI::App& command) {
  const std::string name = "nacre-" + command.get_name();
  std::string text = title(name);
  text += fmt::format(".SH Name\n{} \\- {}\n", roff(name), roff(command.get_description()));
  text += synopsis(command) + options_text(command);
  if (!command.get_footer().empty()) text += ".SH Notes\n" + listing(command.get_footer());
  return {name + ".1", text + ".SH See also\n.BR nacre (1)\n"};
}

}  // namespace

std::vector<ManualPage> manual(const CLI::App& app) {
  std::string text = title("nacre");
  text += fmt::format(".SH Name\nnacre \\- {}\n.SH Synopsis\n\\fBnacre\\fR \\fIcommand\\fR [options]\n.SH Commands\n",
                      roff(app.get_description()));
  std::vector<ManualPage> pages(1);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    text += fmt::format(".TP\n.BR nacre\\-{} (1)\n{}\n", roff(command->get_name()), roff(command->get_description()));
    pages.push_back(page_of(*command));
  }
  text += options_text(app) + ".SH Exit codes and environment\n" + listing(app.get_footer());
  pages[0] = {"nacre.1", text};
  return pages;
}

}  // namespace nacre::tools

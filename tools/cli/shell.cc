// Adds the commands `completions` and `man`, which are about the command line itself.
#include <memory>

#include "tools/base/print.h"
#include "tools/cli/cli.h"
#include "tools/cli/completions.h"
#include "tools/cli/manual.h"
#include "tools/files/output_files.h"

namespace nacre::tools {

void add_completions(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  Command& c = add_command(app, "completions", "a script that completes this tool's words in a shell");
  c.footer(
      "Examples:\n"
      "  source <(nacre completions bash)                               in this shell\n"
      "  nacre completions zsh > ~/.zfunc/_nacre                        a folder of fpath\n"
      "  nacre completions fish > ~/.config/fish/completions/nacre.fish");
  const std::vector<std::string> names = {"bash", "zsh", "fish"};
  c.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(one_of(names))->type_name("bash|zsh|fish");
  c.runs([&app, shell] {
    print(completions(app, *shell == "bash" ? Shell::kBash : *shell == "zsh" ? Shell::kZsh : Shell::kFish));
  });
}

void add_man(CLI::App& app) {
  const auto directory = std::make_shared<std::string>();
  Command& c = add_command(app, "man", "manual pages: of the tool and of each command");
  c.footer("Example:\n  nacre man -o ~/.local/share/man/man1 && man nacre-convert");
  c.writes(c.add_option("-o,--output", *directory, "the folder to write them to")->required()->type_name("DIR"));
  c.runs([&app, directory] {
    OutputFiles files(*directory);
    for (const ManualPage& page : manual(app)) files.add(page.name, {page.text.begin(), page.text.end()});
    OutputFiles* const all[] = {&files};
    write_together(all);
    print("written to " + *directory + "\n");
  });
}

}  // namespace nacre::tools

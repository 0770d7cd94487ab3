#include "tools/cli/option_table.h"

namespace nacre::tools {
namespace {

struct AddField {
  Command& command;
  const std::string &name, &help;
  char delimiter;

  CLI::Option* operator()(const Flag& flag) const {
    return command.add_flag_callback(name, [flag] { *flag.value = flag.given; }, help);
  }
  CLI::Option* operator()(const Whole& number) const {
    return command.add_option_function<uint64_t>(name, number.set, help)
        ->transform(whole_number(number.low, number.high));
  }
  CLI::Option* operator()(const Choice& choice) const {
    const auto take = [choice](const std::string& word) {
      choice.take(size_t(std::ranges::find(choice.words, word) - choice.words.begin()));
    };
    return command.add_option_function<std::string>(name, take, help)->check(one_of(choice.words));
  }
  CLI::Option* operator()(const Choices& choices) const {
    CLI::Option* option = command.add_option(name, *choices.list, help)->allow_extra_args(false);
    if (delimiter != 0) option->delimiter(delimiter);
    return option->check(one_of(choices.words));
  }
  CLI::Option* operator()(std::string* text) const { return command.add_option(name, *text, help); }
  CLI::Option* operator()(std::vector<std::string>* list) const {
    CLI::Option* option = command.add_option(name, *list, help);
    return delimiter != 0 ? option->delimiter(delimiter) : option->allow_extra_args(false);
  }
  CLI::Option* operator()(float* number) const { return command.add_option(name, *number, help); }
  CLI::Option* operator()(double* number) const { return command.add_option(name, *number, help); }
};

}  // namespace

CLI::Option* add_field(Command& c, const std::string& name, const OptionField& field, const std::string& help,
                       char delimiter) {
  return std::visit(AddField{c, name, help, delimiter}, field);
}

}  // namespace nacre::tools

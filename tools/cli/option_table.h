// Registers tables of options (tools/commands/option_table.h) on the command line.
#pragma once

#include <string>
#include <variant>

#include "tools/cli/cli.h"
#include "tools/commands/option_table.h"

namespace nacre::tools {

// Registers one option. The kind of `field` decides its type and the values that it accepts.
CLI::Option* add_field(Command& c, const std::string& name, const OptionField& field, const std::string& help,
                       char delimiter);

// Registers the rows of the table, in their order. `arguments` must outlive the command.
template <class Arguments>
void add_options(Command& c, const OptionTable<Arguments>& table, Arguments& arguments,
                 const std::string& group = "Options") {
  for (const OptionRow<Arguments>& row : table) {
    const OptionField field = row.field(arguments);
    const std::string names = row.alias.empty() ? row.name : row.name + "," + row.alias;
    CLI::Option* option = add_field(c, names, field, row.help, row.delimiter);
    option->group(row.hidden ? "" : group);
    if (!row.value.empty()) option->type_name(row.value);
    const FilesOfValue files = row.files == nullptr ? one_file : row.files;
    if (row.input) c.reads(option, files);
    else if (row.output) c.writes(option, files);
    else if (std::holds_alternative<std::string*>(field) && !row.empty) option->check(not_empty());
  }
}

// Registers the conditions in `acts` of the rows. Call it after all options are registered: conditions name options.
template <class Arguments>
void add_conditions(Command& c, const OptionTable<Arguments>& table, const Arguments& arguments) {
  for (const OptionRow<Arguments>& row : table)
    for (const ActsWhen<Arguments>& acts : row.acts) {
      const Idle idle = {acts.fact, acts.remedy};
      if (!acts.with.empty()) c.only_with({row.name}, acts.with, idle);
      if (!acts.without.empty()) c.not_with({row.name}, acts.without, idle);
      if (acts.when) c.only_when({row.name}, [&arguments, when = acts.when] { return when(arguments); }, idle);
    }
}

}  // namespace nacre::tools

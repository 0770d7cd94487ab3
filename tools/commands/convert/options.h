// Declares the tables of nacre convert's options, by subject. Other commands, such as tune, take some of their rows.
#pragma once

#include <string>

#include "tools/commands/convert/convert.h"
#include "tools/commands/option_table.h"

namespace nacre::tools {

const OptionTable<ConvertOptions>& model_options();  // the model and its file
const OptionTable<PolicyArguments>& policy_options();
const OptionTable<ConvertOptions>& step_options();  // which steps the layers become
const OptionTable<RewriteArguments>& rewrite_options();
const OptionTable<CalibrationArguments>& calibration_options();
const OptionTable<ConvertOptions>& front_end_options();

// Copies the named rows of the table, in the order of `names`. The table must have all of them.
template <class Arguments>
OptionTable<Arguments> rows_of(const OptionTable<Arguments>& table, const std::vector<std::string>& names) {
  OptionTable<Arguments> rows;
  for (const std::string& name : names) rows.push_back(*std::ranges::find(table, name, &OptionRow<Arguments>::name));
  return rows;
}

}  // namespace nacre::tools

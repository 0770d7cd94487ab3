// The options of a training run that convert --train and tune share.
#pragma once

#include "tools/commands/option_table.h"
#include "tools/commands/training_arguments.h"

namespace nacre::tools {

// Returns the table of these options without the loss, for which the two commands have different names.
const OptionTable<TrainingArguments>& training_options();

}  // namespace nacre::tools

// The options of a training run that convert --train and tune share.
#pragma once

#include "tools/commands/option_table.h"
#include "tools/commands/training_arguments.h"

namespace nacre::tools {

// Returns all of them except the loss, which the commands name differently.
const OptionTable<TrainingArguments>& training_options();

}  // namespace nacre::tools

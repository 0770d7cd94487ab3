// Says how the importer treats each key of a configuration in a Keras file. A key is used, has no effect here, counts
// only in training, or is refused unless it is off. A key without a rule is refused by its name.
//
//   for (const std::string& line : refused_settings(call)) problem(line);     before the layer is converted
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

enum class SettingUse : uint8_t {
  kUsed,      // read by the layer's converter, or for the whole file
  kIdle,      // no result depends on it
  kTraining,  // changes training alone, where it is refused unless it is off
  kOff,       // refused unless it is off
  kUnknown,
};
SettingUse use_of(const std::string& class_name, const std::string& key);

// Returns a line for each refused setting of the layer, of the layers inside it and of its call.
std::vector<std::string> refused_settings(const Call& call);
// Returns a line for each refused setting of an input.
std::vector<std::string> refused_settings(const Importer& importer, const std::string& class_name,
                                          const std::string& path, const Json& config);

// Returns a line for each setting of a function of keras.ops, and each keyword argument, that its converter did not
// read.
std::vector<std::string> unread_settings(const Call& call);

bool called_for_inference(const Call& call);  // true for a call with training=False in a file of Keras 2

// Returns true for null, false, 0, and an empty list or object.
bool is_off(const Json& value);

// Returns a number or a flag (0 and 1 too), nullopt for another type. numpy's values are {"class_name": .., "config":
// {"value": ..}}.
std::optional<double> number_in(const Json& value);
std::optional<bool> flag_in(const Json& value);

std::string short_text(const Json& value);  // text of the value for messages

// A penalty of a variable, in a layer's configuration. `decay` is set if the penalty adds decay w to the gradient of w.
//
//   L2(l), L1L2(0, l)   l |w|^2   decay 2 l
struct Penalty {
  std::string class_name;
  std::optional<float> decay;
};
std::optional<Penalty> penalty_of(const Json& regularizer);  // nullopt for null

}  // namespace nacre::tools::keras

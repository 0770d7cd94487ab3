// Says how the importer treats each key of a configuration in a Keras file. A key is used, or has no effect here, or
// it counts in training alone, or only one value of it is known; a key that no table has is refused by its name.
//
//   for (const std::string& line : refused_settings(call)) problem(line);     before anything is made of the layer
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

enum class SettingUse : uint8_t {
  kUsed,      // read by the layer's converter, or by who reads the whole file
  kIdle,      // nothing that is computed here depends on it
  kTraining,  // changes training alone: refused there, unless it is off
  kOff,       // refused unless it is off
  kUnknown,
};
SettingUse use_of(const std::string& class_name, const std::string& key);

// A line for each setting of the layer, of the layers inside it and of its call that is refused.
std::vector<std::string> refused_settings(const Call& call);
// A line for each refused setting of an input.
std::vector<std::string> refused_settings(const Importer& importer, const std::string& class_name,
                                          const std::string& path, const Json& config);

// A line for each setting of a function of keras.ops, and each keyword argument, that its converter did not ask for.
std::vector<std::string> unread_settings(const Call& call);

bool called_for_inference(const Call& call);  // with training=False, which counts in Keras 2

// null, false, 0, or nothing in it.
bool is_off(const Json& value);

// A number, and a flag (0 and 1 too); numpy's are {"class_name": .., "config": {"value": ..}}. None of another type.
std::optional<double> number_in(const Json& value);
std::optional<bool> flag_in(const Json& value);

std::string short_text(const Json& value);  // for messages

// A penalty of a variable, in a layer's configuration. `decay`: what it adds to the gradient of w, decay w, where that
// is its form.
//
//   L2(l), L1L2(0, l)   l |w|^2   decay 2 l
struct Penalty {
  std::string class_name;
  std::optional<float> decay;
};
std::optional<Penalty> penalty_of(const Json& regularizer);  // none of null

}  // namespace nacre::tools::keras

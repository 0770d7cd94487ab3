// Recognizes classes of the user's own in a Keras file. The file has their weights and settings, but not their code.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools::keras {

inline constexpr const char* kOfOwnClass =
    "a layer or model of the user's own class, of which the file holds no graph: export the whole model, "
    "model.export('model.onnx', format='onnx')";

// Returns "Custom>Name" for a class that a user registered, "" for Keras's own. The configuration of such a class may
// lack a name, and the class may have the name of one of Keras's.
std::string own_class(const Json& layer);

// Throws an error for a model that has no list of layers. `place` is the file, `model` the model's path and class.
void refuse_subclassed(const Json& config, const std::string& place, const std::string& model);

}  // namespace nacre::tools::keras

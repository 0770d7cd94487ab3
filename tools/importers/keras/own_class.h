// Classes of the user's own in a Keras file: it holds their weights and settings, and not what they compute.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools::keras {

inline constexpr const char* kOfOwnClass =
    "a layer or model of the user's own class, of which the file holds no graph: export the whole model, "
    "model.export('model.onnx', format='onnx')";

// "Custom>Name" of a class that a user registered; "" of Keras's own. Its configuration need have no name, and its
// name may be one of Keras's.
std::string own_class(const Json& layer);

// Throws for the configuration of a model without a list of layers. `place`: the file; `model`: its class, by its path.
void refuse_subclassed(const Json& config, const std::string& place, const std::string& model);

}  // namespace nacre::tools::keras

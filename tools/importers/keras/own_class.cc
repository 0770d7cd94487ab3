#include "tools/importers/keras/own_class.h"

#include "tools/base/error.h"

namespace nacre::tools::keras {

std::string own_class(const Json& layer) {
  const Json name = layer.value("registered_name", Json());
  const std::string text = name.is_string() ? name.text() : "";
  return text.find('>') == text.npos || text.starts_with("keras>") || text.starts_with("Keras>") ? "" : text;
}

void refuse_subclassed(const Json& config, const std::string& place, const std::string& model) {
  if (config.is_array() || (config.is_object() && config.contains("layers"))) return;
  throw Error(kUnsupported, place, model + " is a subclassed model: its file holds weights and no graph",
              "in Python: model.export('model.onnx', format='onnx'), or, where call takes symbolic tensors, "
              "x = keras.Input(SHAPE) and keras.Model(x, model.call(x)).save('model.keras'); convert that file");
}

}  // namespace nacre::tools::keras

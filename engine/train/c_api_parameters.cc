// Trained parameters by index and by name for C (nacre_c_training.h).
#include <cstddef>
#include <cstring>
#include <span>

#include "engine/c_api.h"
#include "engine/model/tensor_info.h"
#include "engine/nacre.h"

namespace {

using nacre::arguments;
using nacre::kNoIndex;
using nacre::Model;
using nacre::of;
using nacre::Status;
using nacre::to_c;
using nacre::usable;

bool is_parameter(const nacre::TensorRecord& r) {
  return r.region == nacre::Region::kState && r.alias_of == kNoIndex && (r.flags & nacre::kTrainable) != 0;
}

// Returns the tensor of parameter `index`, or kNoIndex if there are fewer.
uint32_t parameter_at(const Model& model, uint32_t index) {
  for (uint32_t id = 0; id < model.tensors().size(); ++id)
    if (is_parameter(model.tensors()[id]) && index-- == 0) return id;
  return kNoIndex;
}

uint32_t parameter_named(const Model& model, const char* name) {
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    nacre::TensorInfo info;
    if (is_parameter(model.tensors()[id]) && model.tensor(id, &info).ok() && std::strcmp(info.name, name) == 0)
      return id;
  }
  return kNoIndex;
}

nacre_status give_parameter(const nacre_model* model, const nacre_trainer* trainer, uint32_t id,
                            nacre_tensor_info* info, void** values) {
  if (id == kNoIndex) return {NACRE_NO_NAME, 0, 0, 0, 0};
  if (values != nullptr) {
    const nacre::TensorRecord& r = of(model).tensors()[id];
    size_t size = 0;
    auto* state = static_cast<std::byte*>(nacre_trainer_state(trainer, &size));
    *values = size < r.bytes || size - r.bytes < r.offset ? nullptr : state + r.offset;
  }
  return info == nullptr ? nacre_status{} : nacre_model_tensor(model, id, info);
}

}  // namespace

extern "C" {

uint32_t nacre_parameter_count(const nacre_model* model) {
  uint32_t count = 0;
  if (model == nullptr) return 0;
  for (const nacre::TensorRecord& r : of(model).tensors()) count += is_parameter(r) ? 1 : 0;
  return count;
}

nacre_status nacre_trainer_parameter_at(const nacre_model* model, const nacre_trainer* trainer, uint32_t index,
                                        nacre_tensor_info* info, void** values) {
  const Status s = arguments(model != nullptr, trainer != nullptr, true, info == nullptr || usable(info));
  return s.ok() ? give_parameter(model, trainer, parameter_at(of(model), index), info, values) : to_c(s);
}

nacre_status nacre_trainer_parameter(const nacre_model* model, const nacre_trainer* trainer, const char* name,
                                     nacre_tensor_info* info, void** values) {
  const Status s = arguments(model != nullptr, trainer != nullptr, name != nullptr, info == nullptr || usable(info));
  return s.ok() ? give_parameter(model, trainer, parameter_named(of(model), name), info, values) : to_c(s);
}

}  // extern "C"

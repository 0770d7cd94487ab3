// The options of TensorFlow Lite's custom operators: a map that FlexBuffers stores. The bytes are outside data: what is
// damaged, or no map, has no names.
#pragma once

#include <flatbuffers/flexbuffers.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tflite_generated.h"

namespace nacre::tools::tflite {

class FlexMap {
 public:
  explicit FlexMap(const Operator& record) : map_(flexbuffers::Map::EmptyMap()) {
    const auto* bytes = record.custom_options();
    std::vector<uint8_t> seen;  // else a vector that many others name is verified as often
    const bool valid =
        bytes != nullptr && bytes->size() >= 3 && flexbuffers::VerifyBuffer(bytes->data(), bytes->size(), &seen);
    if (!valid) return;
    const flexbuffers::Reference root = flexbuffers::GetRoot(bytes->data(), bytes->size());
    if (root.IsMap()) map_ = root.AsMap();
  }

  std::optional<int64_t> find(const char* name) const {
    const flexbuffers::Reference v = map_[name];
    return v.IsIntOrUint() || v.IsBool() ? std::optional(v.AsInt64()) : std::nullopt;
  }
  std::optional<float> find_real(const char* name) const {
    const flexbuffers::Reference v = map_[name];
    return v.IsNumeric() ? std::optional(v.AsFloat()) : std::nullopt;
  }

 private:
  flexbuffers::Map map_;
};

}  // namespace nacre::tools::tflite

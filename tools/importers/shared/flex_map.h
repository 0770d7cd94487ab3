// Reads the options of TensorFlow Lite's custom operators, which are a map in FlexBuffers' format. The bytes come
// from outside and are verified. Damaged bytes, or bytes that are no map, read as an empty map.
#pragma once

#include <flatbuffers/flexbuffers.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tflite_generated.h"

namespace nacre::tools::tflite {

class FlexMap {
 public:
  // Copies the bytes, because the file may place a number of 8 bytes at an address that is a multiple of 4 only.
  explicit FlexMap(const Operator& record) : map_(flexbuffers::Map::EmptyMap()) {
    if (const auto* bytes = record.custom_options()) bytes_.assign(bytes->begin(), bytes->end());
    std::vector<uint8_t> seen;  // without `seen` the verifier visits a vector once for each reference to it
    if (bytes_.size() < 3 || !flexbuffers::VerifyBuffer(bytes_.data(), bytes_.size(), &seen)) return;
    const flexbuffers::Reference root = flexbuffers::GetRoot(bytes_.data(), bytes_.size());
    if (root.IsMap()) map_ = root.AsMap();
  }
  FlexMap(const FlexMap&) = delete;
  FlexMap& operator=(const FlexMap&) = delete;

  std::optional<int64_t> find(const char* name) const {
    const flexbuffers::Reference v = map_[name];
    return v.IsIntOrUint() || v.IsBool() ? std::optional(v.AsInt64()) : std::nullopt;
  }
  std::optional<float> find_real(const char* name) const {
    const flexbuffers::Reference v = map_[name];
    return v.IsNumeric() ? std::optional(v.AsFloat()) : std::nullopt;
  }

 private:
  std::vector<uint8_t> bytes_;
  flexbuffers::Map map_;  // refers to bytes_
};

}  // namespace nacre::tools::tflite

// TensorInfo describes a tensor to a caller: name, type, shape, and what its codes mean.
//
//   TensorInfo info;
//   NACRE_TRY(model.input("audio", &info));           // or model.input(program, index, &info), model.tensor(id, &info)
//   info.element(), info.dims(), info.scale, info.zero   // real = scale * (code - zero)
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/model.h"

namespace nacre {

// The texts and arrays are views of the model's bytes.
struct TensorInfo {
  const char* name = "";  // the source model's name; "" if names were stripped
  const char* axes = "";  // one letter per axis of an input or output: "NHWC"; "" if the source says nothing
  const TensorRecord* record = nullptr;
  uint32_t program = kNoIndex, index = kNoIndex;  // set for an input or output
  uint32_t tensor = kNoIndex;                     // id of the tensor
  // The meaning of codes: one scale for all, or one for each index of `axis`. `scale` is 0 if there is no quantizer,
  // if there is a scale per index, or if training changes the scale.
  float scale = 0;
  int32_t zero = 0;
  std::span<const float> scales;
  std::span<const int32_t> zeros;  // if this is empty, `zero` holds for all
  uint32_t axis = 0;
  // True for an input that no step overwrites: after a run its bytes are still those written before the run. Any
  // other input must be written again before every run.
  bool survives = false;

  ElementType element() const { return record->element; }
  // Returns the size of each axis, for the compiled batch.
  std::span<const int32_t> dims() const { return {record->dims, record->rank}; }
  uint64_t bytes() const { return record->bytes; }
  bool batched() const { return (record->flags & kBatched) != 0; }
};

}  // namespace nacre

// TensorInfo: what a caller asks about a tensor: name, type, shape, what its codes mean.
//
//   TensorInfo info;
//   NACRE_TRY(model.input("audio", &info));           // or model.input(program, index, &info), model.tensor(id, &info)
//   info.element, info.dims(), info.scale, info.zero   // real = scale * (code - zero)
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/model.h"

namespace nacre {

// Views of the model's bytes.
struct TensorInfo {
  const char* name = "";  // the source's; "" where names were stripped
  const char* axes = "";  // of an input or output, a letter for each: "NHWC"; "" where the source says nothing
  const TensorRecord* record = nullptr;
  uint32_t program = kNoIndex, index = kNoIndex;  // of an input or output
  uint32_t tensor = kNoIndex;                     // its id
  // Meaning of codes: one scale for all, or one for each index of `axis`. `scale` is 0 where there is no quantizer,
  // where there is one for each, and where training changes it.
  float scale = 0;
  int32_t zero = 0;
  std::span<const float> scales;
  std::span<const int32_t> zeros;  // empty: all `zero`
  uint32_t axis = 0;
  // True for an input that no step overwrites: the bytes that were written before a run stand there behind it too.
  // Any other input is written anew before every run.
  bool survives = false;

  ElementType element() const { return record->element; }
  // Elements of each axis, of the compiled batch.
  std::span<const int32_t> dims() const { return {record->dims, record->rank}; }
  uint64_t bytes() const { return record->bytes; }
  bool batched() const { return (record->flags & kBatched) != 0; }
};

}  // namespace nacre

// Shows tensors of programs as NumPy arrays, without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>

#include "engine/base/tensor.h"
#include "tools/base/json.h"
#include "tools/model/loaded_model.h"

namespace nacre::python {

using Array = nanobind::ndarray<nanobind::numpy>;

// Returns an array over these bytes, which `owner` keeps alive, in the record's shape. If DLPack lacks the type or
// NumPy cannot hold it, the array has its bits as uint16 or uint8. Elements of less than a byte become a row of bytes.
Array array_over(std::span<const std::byte> bytes, const TensorRecord& record, nanobind::handle owner);

// Views the memory of `array` as unsigned integers, for types that DLPack has and NumPy lacks, such as bfloat16.
Array codes_of(const nanobind::ndarray<nanobind::ro, nanobind::device::cpu, nanobind::c_contig>& array);

// Returns {"name", "shape", "dtype", "rows": whether axis 0 counts rows, "scale", "zero_point"}. Without a quantizer
// the last two are null.
tools::Json tensor_json(const tools::LoadedModel& model, uint32_t tensor, const std::string& name, uint32_t batch);

}  // namespace nacre::python

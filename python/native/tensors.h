// Tensors of programs as arrays of NumPy, without a copy.
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

// Over these bytes, which `owner` keeps alive, in the record's shape. Types that DLPack lacks or NumPy cannot hold are
// uint16 and uint8 codes; elements of less than a byte are a row of bytes.
Array array_over(std::span<const std::byte> bytes, const TensorRecord& record, nanobind::handle owner);

// Views the memory of `array` as unsigned integers, for types that DLPack has and NumPy lacks, such as bfloat16.
Array codes_of(const nanobind::ndarray<nanobind::ro, nanobind::device::cpu, nanobind::c_contig>& array);

// {"name", "shape", "dtype", "rows": whether axis 0 counts rows, "scale", "zero_point"}; both null without a quantizer.
tools::Json tensor_json(const tools::LoadedModel& model, uint32_t tensor, const std::string& name, uint32_t batch);

}  // namespace nacre::python

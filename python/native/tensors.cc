#include "python/native/tensors.h"

#include <vector>

#include "tools/base/names.h"
#include "tools/model/run_inputs.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

nb::dlpack::dtype type_of(ElementType element) {
  const auto make = [](nb::dlpack::dtype_code code, uint32_t bits) {
    return nb::dlpack::dtype{uint8_t(code), uint8_t(bits), 1};
  };
  const uint32_t bits = element_bits(element);
  switch (element) {
    case ElementType::kFloat32:
    case ElementType::kFloat16:
    case ElementType::kFloat64: return make(nb::dlpack::dtype_code::Float, bits);
    case ElementType::kInt8:
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kInt64: return make(nb::dlpack::dtype_code::Int, bits);
    case ElementType::kBool: return make(nb::dlpack::dtype_code::Bool, bits);
    default: return make(nb::dlpack::dtype_code::UInt, bits < 8 ? 8 : bits);
  }
}

}  // namespace

Array array_over(std::span<const std::byte> bytes, const TensorRecord& record, nb::handle owner) {
  size_t shape[kMaxRank] = {};
  size_t rank = record.rank;
  for (size_t axis = 0; axis < rank; ++axis) shape[axis] = size_t(record.dims[axis]);
  if (element_bits(record.element) < 8) {
    rank = 1;
    shape[0] = bytes.size();
  }
  return Array(const_cast<std::byte*>(bytes.data()), rank, shape, owner, nullptr, type_of(record.element));
}

Array codes_of(const nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>& array) {
  std::vector<size_t> shape;
  for (size_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  const nb::dlpack::dtype codes = {uint8_t(nb::dlpack::dtype_code::UInt), array.dtype().bits, 1};
  return Array(const_cast<void*>(array.data()), array.ndim(), shape.data(), nb::cast(array), nullptr, codes);
}

tools::Json tensor_json(const tools::LoadedModel& model, uint32_t tensor, const std::string& name, uint32_t batch) {
  const TensorRecord& r = model.model().tensors()[tensor];
  tools::Json json = {{"name", name},
                      {"shape", std::vector<int32_t>(r.dims, r.dims + r.rank)},
                      {"dtype", tools::name_of(r.element)},
                      {"rows", tools::has_rows(r, batch)},
                      {"scale", nullptr},
                      {"zero_point", nullptr}};
  if (const std::optional<tools::Scales> scales = model.scales(tensor)) {
    json["scale"] = double(scales->scale[0]);
    json["zero_point"] = scales->zero[0];
  }
  return json;
}

}  // namespace nacre::python

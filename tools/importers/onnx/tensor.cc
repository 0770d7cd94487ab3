#include "tools/importers/onnx/tensor.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/files/input_file.h"

namespace nacre::tools::onnx_import {
namespace {

using ::onnx::TensorProto;

struct DataType {
  const char* name;
  ElementType element;
};

// Indexed by TensorProto.DataType (onnx.proto of v1.22.0; the library's own enum ends earlier).
constexpr DataType kDataTypes[] = {
    {"undefined", ElementType::kNone},
    {"float32", ElementType::kFloat32},
    {"uint8", ElementType::kUint8},
    {"int8", ElementType::kInt8},
    {"uint16", ElementType::kUint32},  // uint32 holds its numbers
    {"int16", ElementType::kInt16},
    {"int32", ElementType::kInt32},
    {"int64", ElementType::kInt64},
    {"string", ElementType::kNone},
    {"bool", ElementType::kBool},
    {"float16", ElementType::kFloat16},
    {"float64", ElementType::kFloat64},
    {"uint32", ElementType::kUint32},
    {"uint64", ElementType::kInt64},  // only numbers below 2^63
    {"complex64", ElementType::kNone},
    {"complex128", ElementType::kNone},
    {"bfloat16", ElementType::kBfloat16},
    {"float8e4m3fn", ElementType::kFloat8E4M3},
    {"float8e4m3fnuz", ElementType::kFloat8E4M3Fnuz},
    {"float8e5m2", ElementType::kFloat8E5M2},
    {"float8e5m2fnuz", ElementType::kFloat8E5M2Fnuz},
    {"uint4", ElementType::kUint4},
    {"int4", ElementType::kInt4},
    {"float4e2m1", ElementType::kFloat4E2M1},
    {"float8e8m0", ElementType::kFloat8E8M0},
    {"uint2", ElementType::kNone},
    {"int2", ElementType::kNone},
};

const DataType* find_type(int data_type) {
  return data_type >= 0 && size_t(data_type) < std::size(kDataTypes) ? &kDataTypes[data_type] : nullptr;
}

template <class To, class From>
void append(std::vector<uint8_t>& bytes, From number) {
  const To element = To(number);
  const size_t end = bytes.size();
  bytes.resize(end + sizeof element);
  std::memcpy(bytes.data() + end, &element, sizeof element);
}

template <class To, class Field>
std::vector<uint8_t> gather_field(const Field& field) {
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(field.size()) * sizeof(To));
  for (const auto number : field) append<To>(bytes, number);
  return bytes;
}

// Returns the elements of a tensor's typed field, such as float_data. A tensor without raw_data has them there. Types
// of 16 bits and less are in int32_data, one per entry in its low bits (4-bit types: two per entry; onnx.proto).
std::vector<uint8_t> read_field(const TensorProto& tensor, ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return gather_field<float>(tensor.float_data());
    case ElementType::kFloat64: return gather_field<double>(tensor.double_data());
    case ElementType::kInt64:
      if (tensor.data_type() == TensorProto::UINT64) return gather_field<int64_t>(tensor.uint64_data());
      return gather_field<int64_t>(tensor.int64_data());
    case ElementType::kUint32: return gather_field<uint32_t>(tensor.uint64_data());
    case ElementType::kInt32: return gather_field<int32_t>(tensor.int32_data());
    case ElementType::kInt16:
    case ElementType::kFloat16:
    case ElementType::kBfloat16: return gather_field<uint16_t>(tensor.int32_data());
    default: return gather_field<uint8_t>(tensor.int32_data());
  }
}

struct ExternalRange {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

uint64_t parse_bytes(const std::string& place, const std::string& key, const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    throw Error(kBadInput, place, "external data: " + key + " '" + text + "' is not a number of bytes");
  return std::stoull(text);
}

ExternalRange external_range(const std::string& place, const TensorProto& tensor) {
  ExternalRange range;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() == "offset") range.offset = parse_bytes(place, "offset", entry.value());
    if (entry.key() == "length") range.length = parse_bytes(place, "length", entry.value());
  }
  return range;
}

// Returns the folder of the Hugging Face hub's cache that contains a model's `directory`, or an empty path. In this
// cache (huggingface_hub)
//
//   models--NAME/snapshots/REVISION/..   links to   models--NAME/blobs/HASH
std::filesystem::path cache_of(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::path at = directory; at.has_relative_path(); at = at.parent_path()) {
    const fs::path above = at.parent_path();
    if (above.filename() == "snapshots" && fs::is_directory(above.parent_path() / "blobs", error))
      return above.parent_path();
  }
  return {};
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& root) {
  const std::filesystem::path inside = path.lexically_relative(root);
  return !inside.empty() && *inside.begin() != "..";
}

// Follows the links from `path` one after another. Returns the file that they lead to if each of them stays inside
// `root`, else an empty path.
std::filesystem::path followed_inside(std::filesystem::path path, const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 16;
  std::error_code error;
  for (int links = 0; links < kMostLinks; ++links) {
    const fs::path parent = fs::canonical(path.parent_path(), error);
    if (error || !is_inside(parent, root)) return {};
    path = parent / path.filename();
    if (!fs::is_symlink(path, error)) return fs::is_regular_file(path, error) ? path : fs::path();
    const fs::path target = fs::read_symlink(path, error);
    if (error || target.empty()) return {};
    path = (parent / target).lexically_normal();
    if (!is_inside(path, root)) return {};
  }
  return {};
}

// Returns the file that `location` names. After every link is followed, the file must lie inside `directory`, or
// inside the cache that contains the directory.
std::filesystem::path external_path(const std::string& place, const std::string& location,
                                    const std::string& directory) {
  namespace fs = std::filesystem;
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(kBadInput, place, "external data: " + why, "keep the data beside the model, or store it in the model");
  };
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos) throw refuse("no location is given");
  if (relative.is_absolute() || location[0] == '\\' || location.find(':') != std::string::npos)
    throw refuse("'" + location + "' is an absolute path");
  for (const fs::path& part : relative)
    if (part == ".." || part.string().find("..\\") != std::string::npos)
      throw refuse("'" + location + "' leaves the directory of the model");
  if (directory.empty()) throw refuse("'" + location + "' cannot be read: the model was not given as a file");
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) throw Error(kIo, place, "external data: '" + directory + "' cannot be read: " + error.message());
  const fs::path path = fs::canonical(root / relative, error);
  if (error) throw Error(kIo, place, "external data: '" + location + "' cannot be read: " + error.message());
  if (is_inside(path, root)) return path;
  const fs::path cache = cache_of(root);
  if (!cache.empty() && followed_inside(root / relative, cache) == path) return path;
  throw refuse("'" + location + "' leaves the directory of the model" + (cache.empty() ? "" : " and its cache"));
}

std::vector<uint8_t> read_external(const std::string& place, const TensorProto& tensor, uint64_t bytes,
                                   const std::string& directory) {
  const ExternalRange range = external_range(place, tensor);
  const std::string path = CommandInputs::first_answer("external data of " + directory + ": " + range.location, [&] {
    return external_path(place, range.location, directory).string();
  });
  if (range.length && *range.length != bytes)
    throw Error(
        kBadInput, place,
        "external data: has " + std::to_string(*range.length) + " bytes, its shape needs " + std::to_string(bytes));
  const InputFile file(path);
  if (range.offset > file.size() || file.size() - range.offset < bytes)
    throw Error(kBadInput, place,
                "external data: '" + range.location + "' has " + std::to_string(file.size()) +
                    " bytes, the tensor ends at " + std::to_string(range.offset + bytes));
  std::vector<uint8_t> data(bytes);
  if (file.read(range.offset, data) != bytes)
    throw Error(kIo, place, "external data: '" + range.location + "' cannot be read");
  return data;
}

// Returns the elements of a uint16 tensor as uint32.
std::vector<uint8_t> widened_uint16(const std::vector<uint8_t>& data) {
  std::vector<uint8_t> wide(2 * data.size(), 0);
  for (size_t i = 0; i < data.size(); ++i) wide[i / 2 * 4 + i % 2] = data[i];
  return wide;
}

template <class T, class From>
T saturate(From number) {
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(number)) return 0;
    const double low = double(std::numeric_limits<T>::lowest()), high = double(std::numeric_limits<T>::max());
    if (double(number) <= low) return std::numeric_limits<T>::lowest();
    if (double(number) >= high) return std::numeric_limits<T>::max();
    return T(number);
  } else {
    const auto low = int64_t(std::numeric_limits<T>::lowest()), high = int64_t(std::numeric_limits<T>::max());
    return T(number < low ? low : number > high ? high : number);
  }
}

template <class T, class From>
std::vector<uint8_t> encode(const std::vector<From>& numbers) {
  std::vector<uint8_t> bytes;
  bytes.reserve(numbers.size() * sizeof(T));
  for (const From number : numbers) {
    if constexpr (std::is_floating_point_v<T>) append<T>(bytes, number);
    else if constexpr (requires(T element) { element.bits; }) append<T>(bytes, double(number));
    else append<T>(bytes, saturate<T>(number));
  }
  return bytes;
}

template <class From>
std::vector<uint8_t> encode(const std::string& name, ElementType type, const std::vector<From>& numbers) {
  switch (type) {
    case ElementType::kFloat32: return encode<float>(numbers);
    case ElementType::kFloat16: return encode<Float16>(numbers);
    case ElementType::kBfloat16: return encode<Bfloat16>(numbers);
    case ElementType::kFloat8E4M3: return encode<Float8E4M3>(numbers);
    case ElementType::kFloat8E5M2: return encode<Float8E5M2>(numbers);
    case ElementType::kFloat64: return encode<double>(numbers);
    case ElementType::kInt8: return encode<int8_t>(numbers);
    case ElementType::kUint8: return encode<uint8_t>(numbers);
    case ElementType::kInt16: return encode<int16_t>(numbers);
    case ElementType::kInt32: return encode<int32_t>(numbers);
    case ElementType::kInt64: return encode<int64_t>(numbers);
    case ElementType::kUint32: return encode<uint32_t>(numbers);
    case ElementType::kBool: {
      std::vector<uint8_t> bytes;
      for (const From number : numbers) bytes.push_back(number != From{} ? 1 : 0);
      return bytes;
    }
    default: throw Error(kUnsupported, name, "constants of this element type cannot be computed");
  }
}

template <class From>
Value make(const std::string& name, ElementType type, std::vector<int64_t> dims, const std::vector<From>& numbers) {
  Value value;
  value.name = name;
  value.type = value.stored = type;
  value.dims = std::move(dims);
  value.region = Region::kWeights;
  value.data = std::make_shared<const std::vector<uint8_t>>(encode(name, type, numbers));
  return value;
}

}  // namespace

ElementType element_type(int data_type) {
  const DataType* type = find_type(data_type);
  return type != nullptr ? type->element : ElementType::kNone;
}

std::string type_name(int data_type) {
  const DataType* type = find_type(data_type);
  return type != nullptr ? type->name : "element type " + std::to_string(data_type);
}

int64_t checked_elements(const std::string& place, const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) throw Error(kBadInput, place, "has a negative dimension");
    if (dim > 0 && product > std::numeric_limits<int32_t>::max() / dim)
      throw Error(kUnsupported, place, "has more than 2^31 - 1 elements");
    product *= dim;
  }
  return product;
}

namespace {

bool any_negative(const std::vector<uint8_t>& int64s) {
  for (size_t i = 7; i < int64s.size(); i += 8)
    if (int64s[i] >= 128) return true;
  return false;
}

ElementType type_in_file(const TensorProto& tensor) {
  return tensor.data_type() == TensorProto::UINT16 ? ElementType::kInt16 : element_type(tensor.data_type());
}

}  // namespace

std::vector<uint8_t> external_data(const TensorProto& tensor, const std::string& directory) {
  const std::string place = tensor.name().empty() ? "tensor" : tensor.name();
  const int64_t elements = checked_elements(place, {tensor.dims().begin(), tensor.dims().end()});
  return read_external(place, tensor, storage_bytes(type_in_file(tensor), uint64_t(elements)), directory);
}

Value read_tensor(const TensorProto& tensor, const std::string& directory) {
  const std::string place = tensor.name().empty() ? "tensor" : tensor.name();
  Value value;
  value.name = tensor.name();
  value.type = value.stored = element_type(tensor.data_type());
  value.region = Region::kWeights;
  if (value.type == ElementType::kNone)
    throw Error(kUnsupported, place, "constants of type " + type_name(tensor.data_type()) + " are not read");
  if (tensor.dims_size() > 64)
    throw Error(kBadInput, place, "has " + std::to_string(tensor.dims_size()) + " dimensions");
  value.dims.assign(tensor.dims().begin(), tensor.dims().end());
  const bool uint16 = tensor.data_type() == TensorProto::UINT16;
  const ElementType in_file = type_in_file(tensor);
  const uint64_t bytes = storage_bytes(in_file, uint64_t(checked_elements(place, value.dims)));

  std::vector<uint8_t> data;
  if (tensor.data_location() == TensorProto::EXTERNAL) data = read_external(place, tensor, bytes, directory);
  else if (tensor.has_raw_data()) data.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  else data = read_field(tensor, in_file);
  if (data.size() != bytes)
    throw Error(kBadInput, place,
                "has " + std::to_string(data.size()) + " bytes of data, its shape needs " + std::to_string(bytes));
  if (uint16) data = widened_uint16(data);
  if (tensor.data_type() == TensorProto::UINT64 && any_negative(data))
    throw Error(kUnsupported, place, "has a number of 2^63 or more: uint64 is read as int64");
  value.data = std::make_shared<const std::vector<uint8_t>>(std::move(data));
  return value;
}

Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<int64_t>& integers) {
  return make(name, type, std::move(dims), integers);
}

Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<float>& reals) {
  return make(name, type, std::move(dims), reals);
}

Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<double>& reals) {
  return make(name, type, std::move(dims), reals);
}

bool is_other_real(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16 || type == ElementType::kFloat64;
}

Value as_float32(Value value) {
  if (!is_other_real(value.stored)) return value;
  Value wide = make_constant(value.name, ElementType::kFloat32, value.dims, reals(value));
  if (value.stored != ElementType::kFloat64) wide.source_type = value.stored;
  return wide;
}

Value rounded(Value value, ElementType type) {
  if (value.stored != ElementType::kFloat32 || !is_other_real(type)) return value;
  std::vector<float> numbers = reals(value);
  for (float& number : numbers) {
    if (type == ElementType::kFloat16) number = float(Float16(number));
    if (type == ElementType::kBfloat16) number = float(Bfloat16(number));
  }
  set_reals(value, numbers);
  return value;
}

bool is_integer(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kInt64:
    case ElementType::kUint32:
    case ElementType::kInt4:
    case ElementType::kUint4:
    case ElementType::kBool: return true;
    default: return false;
  }
}

}  // namespace nacre::tools::onnx_import

#include "tools/importers/shared/stored_numbers.h"

#include <cstring>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

// Calls `visit` with a number of the given type, or with a float for a type that is not listed.
template <class F>
auto with_element(ElementType type, F visit) {
  switch (type) {
    case ElementType::kFloat16: return visit(Float16());
    case ElementType::kBfloat16: return visit(Bfloat16());
    case ElementType::kFloat64: return visit(double());
    default: return visit(float());
  }
}

}  // namespace

std::vector<StoredNumbers> stored_numbers(std::span<const uint8_t> bytes, const std::string& name) {
  switch (sniff(bytes)) {
    case Format::kZip: return stored_numbers_of_keras_archive(bytes, name);
    case Format::kHdf5: return stored_numbers_of_keras_hdf5(bytes, name);
    case Format::kOnnx: return stored_numbers_of_onnx(bytes, name);
    case Format::kJson:
      throw Error(kUsage, name, "is a configuration, and what was learned goes into its weights",
                  "name the .weights.h5 beside it");
    default: throw Error(kUsage, name, "is no file of Keras or ONNX, into which numbers can be written back");
  }
}

std::vector<float> read_stored(std::span<const uint8_t> bytes, const StoredNumbers& tensor) {
  return with_element(tensor.type, [&]<class T>(T element) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < tensor.elements; ++i) {
      std::memcpy(&element, bytes.data() + tensor.offset + size_t(i) * sizeof(T), sizeof(T));
      numbers.push_back(float(element));
    }
    return numbers;
  });
}

void store(std::span<uint8_t> bytes, const StoredNumbers& tensor, int64_t first, std::span<const float> numbers) {
  with_element(tensor.type, [&]<class T>(T) {
    uint8_t* to = bytes.data() + tensor.offset + size_t(first) * sizeof(T);
    for (const float number : numbers) {
      const T element(number);
      std::memcpy(to, &element, sizeof(T));
      to += sizeof(T);
    }
  });
}

float rounded_to(ElementType type, float number) {
  return with_element(type, [&]<class T>(T) { return float(T(number)); });
}

void seal(std::span<uint8_t> bytes, const std::string& name) {
  if (sniff(bytes) == Format::kZip) seal_keras_archive(bytes, name);
}

}  // namespace nacre::tools

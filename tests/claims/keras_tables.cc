#include "tests/claims/keras_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "engine/base/crc32c.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

bool has_trait(const Json& record, const char* name) {
  const Json& traits = record.at("traits");
  return std::find(traits.begin(), traits.end(), name) != traits.end();
}

// Returns numbers u 2^exponent, u uniform in [-1, 1). With `ties` returns trunc(254 u) 2^(exponent - 8).
std::vector<float> scaled(Uniform& stream, int64_t elements, int exponent, bool ties) {
  std::vector<float> values = stream.tensor(size_t(elements), ties ? 0 : exponent);
  if (!ties) return values;
  for (float& v : values) v = std::ldexp(float(std::trunc(double(v) * 254)), exponent - 8);
  return values;
}

void apply_traits(const Json& record, KerasLayer& layer) {
  const auto column = [&](int64_t k, auto f) {
    for (int64_t i = 0; i < layer.in; ++i) layer.kernel[size_t(i * layer.out + k)] = f(i);
  };
  const auto row = [&](int64_t r) { return std::span(layer.x).subspan(size_t(r * layer.in), size_t(layer.in)); };
  if (has_trait(record, "ties")) {
    const float top = std::ldexp(254.0f, record.at("kernel_exponent").get<int>() - 8);
    std::fill_n(layer.kernel.begin(), layer.out, top);
    for (int64_t r = 0; r < layer.rows; ++r) row(r)[0] = std::ldexp(254.0f, record.at("x_exponent").get<int>() - 8);
  }
  if (has_trait(record, "spread"))
    for (int64_t r = 0; r < layer.rows; ++r)
      for (float& v : row(r)) v = std::ldexp(v, int(-4 * r));
  if (has_trait(record, "constant")) {
    const int64_t k = 1 % layer.out;
    const float first = layer.kernel[size_t(k)];
    column(k, [&](int64_t) { return first; });
  }
  if (has_trait(record, "zero_column")) column(0, [](int64_t) { return 0.0f; });
  if (has_trait(record, "outlier")) {
    layer.kernel[size_t(layer.in / 2 * layer.out + layer.out - 1)] *= 256;
    layer.x[size_t(layer.in / 2)] *= 1024;
  }
  if (has_trait(record, "zero_row"))
    for (float& v : row(layer.rows - 1)) v = 0;
}

}  // namespace

Json read_table(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(kIo, path.string(), "cannot be read");
  return Json::parse(file);
}

float Uniform::next() {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t z = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return float(z >> 40) / 16777216.0f * 2 - 1;
}

std::vector<float> Uniform::tensor(size_t elements, int exponent) {
  std::vector<float> values(elements);
  for (float& v : values) v = std::ldexp(next(), exponent);
  return values;
}

KerasLayer int8_layer(const Json& record) {
  KerasLayer layer;
  layer.x_dims = record.at("lead").get<std::vector<int64_t>>();
  layer.rows = 1;
  for (const int64_t dim : layer.x_dims) layer.rows *= dim;
  layer.in = record.at("in");
  layer.out = record.at("out");
  layer.x_dims.push_back(layer.in);
  Uniform stream(record.at("seed"));
  const bool ties = has_trait(record, "ties");
  layer.kernel = scaled(stream, layer.in * layer.out, record.at("kernel_exponent"), ties);
  if (record.at("bias").get<bool>()) layer.bias = stream.tensor(size_t(layer.out), record.at("bias_exponent"));
  layer.x = scaled(stream, layer.rows * layer.in, record.at("x_exponent"), ties);
  apply_traits(record, layer);
  return layer;
}

std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  std::vector<float> result(matrix.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) result[size_t(c * rows + r)] = matrix[size_t(r * columns + c)];
  return result;
}

Bytes decode_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == std::string::npos) throw Error(kBadInput, "base64", "a character that is no digit");
    bits = bits << 6 | uint32_t(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes.push_back(uint8_t(bits >> count));
  }
  return bytes;
}

std::string crc32c_text(std::span<const std::byte> bytes) {
  char text[9];
  std::snprintf(text, sizeof text, "%08X", unsigned(crc32c(bytes)));
  return text;
}

}  // namespace nacre::tools

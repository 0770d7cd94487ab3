#include "tools/importers/onnx/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "tools/base/error.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

size_t element_bytes(const Value& x) {
  const uint32_t bits = element_bits(x.stored);
  if (bits < 8) throw Error(kUnsupported, x.name, "constants of less than 8 bits per element cannot be rearranged");
  return bits / 8;
}

Value shell(const Value& x, std::vector<int64_t> dims, std::vector<uint8_t> bytes) {
  Value y;
  y.name = x.name;
  y.type = x.type;
  y.stored = x.stored;
  y.quantizer = x.quantizer;
  y.region = Region::kWeights;
  y.dims = std::move(dims);
  y.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return y;
}

// Returns y[i0, i1, ...] = x[offset + sum_k i_k strides_k]. permuted, sliced and expanded have this form.
Value strided(const Value& x, const std::vector<int64_t>& dims, int64_t offset, const std::vector<int64_t>& strides) {
  const size_t width = element_bytes(x);
  const auto count = size_t(checked_elements(x.name, dims));
  std::vector<uint8_t> bytes(count * width);
  std::vector<int64_t> index(dims.size());
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(bytes.data() + i * width, x.data->data() + size_t(offset) * width, width);
    for (size_t axis = dims.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return shell(x, dims, std::move(bytes));
}

// Returns x with elements that can be moved one by one: decodes codes that have several scales.
Value movable(const Value& x) { return x.quantizer && x.quantizer->scale.size() > 1 ? decoded(x) : x; }

// Returns strides that read x as if it were broadcast to `dims`. They are 0 along axes that x does not have or that
// have size 1 in x.
std::vector<int64_t> broadcast_strides(const Value& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  const std::vector<int64_t> own = strides_of(x.dims);
  const size_t first = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (x.dims[i] != 1) strides[first + i] = own[i];
  return strides;
}

int64_t wrap_add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
int64_t wrap_sub(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
int64_t wrap_mul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
int64_t divide(int64_t a, int64_t b) {
  if (b == 0) throw Error(kBadInput, "constant", "an integer is divided by zero");
  return b == -1 ? wrap_sub(0, a) : a / b;
}

struct BinaryOp {
  const char* name;
  int64_t (*integer)(int64_t, int64_t);
  float (*real)(float, float);
  bool gives_bool = false;
};

constexpr BinaryOp kBinary[] = {
    {"Add", wrap_add, [](float a, float b) { return a + b; }},
    {"Sub", wrap_sub, [](float a, float b) { return a - b; }},
    {"Mul", wrap_mul, [](float a, float b) { return a * b; }},
    {"Div", divide, [](float a, float b) { return a / b; }},
    {"Sum", wrap_add, [](float a, float b) { return a + b; }},
    {"Min", [](int64_t a, int64_t b) { return std::min(a, b); }, [](float a, float b) { return std::min(a, b); }},
    {"Max", [](int64_t a, int64_t b) { return std::max(a, b); }, [](float a, float b) { return std::max(a, b); }},
    {"Pow", nullptr, [](float a, float b) { return std::pow(a, b); }},
    {"Equal", [](int64_t a, int64_t b) { return int64_t{a == b}; }, [](float a, float b) { return float(a == b); },
     true},
    {"Less", [](int64_t a, int64_t b) { return int64_t{a < b}; }, [](float a, float b) { return float(a < b); }, true},
    {"LessOrEqual", [](int64_t a, int64_t b) { return int64_t{a <= b}; },
     [](float a, float b) { return float(a <= b); }, true},
    {"Greater", [](int64_t a, int64_t b) { return int64_t{a > b}; }, [](float a, float b) { return float(a > b); },
     true},
    {"GreaterOrEqual", [](int64_t a, int64_t b) { return int64_t{a >= b}; },
     [](float a, float b) { return float(a >= b); }, true},
    {"And", [](int64_t a, int64_t b) { return int64_t{a != 0 && b != 0}; }, nullptr, true},
    {"Or", [](int64_t a, int64_t b) { return int64_t{a != 0 || b != 0}; }, nullptr, true},
};

struct UnaryOp {
  const char* name;
  int64_t (*integer)(int64_t);
  float (*real)(float);
};

constexpr UnaryOp kUnary[] = {
    {"Neg", [](int64_t a) { return wrap_sub(0, a); }, [](float a) { return -a; }},
    {"Abs", [](int64_t a) { return a < 0 ? wrap_sub(0, a) : a; }, [](float a) { return std::fabs(a); }},
    {"Not", [](int64_t a) { return int64_t{a == 0}; }, nullptr},
    {"Floor", nullptr, [](float a) { return std::floor(a); }},
    {"Ceil", nullptr, [](float a) { return std::ceil(a); }},
    {"Sqrt", nullptr, [](float a) { return std::sqrt(a); }},
    {"Reciprocal", nullptr, [](float a) { return 1 / a; }},
    {"Exp", nullptr, [](float a) { return std::exp(a); }},
    {"Log", nullptr, [](float a) { return std::log(a); }},
    {"Round", nullptr, [](float a) { return std::nearbyint(a); }},
    {"Sign", [](int64_t a) { return int64_t{a > 0} - int64_t{a < 0}; },
     [](float a) { return a == 0          ? 0
                          : std::isnan(a) ? a
                                          : std::copysign(1.0f, a); }},
    {"Sin", nullptr, [](float a) { return std::sin(a); }},
    {"Cos", nullptr, [](float a) { return std::cos(a); }},
};

template <class T, class F>
Value broadcast_map(const Value& a, const Value& b, const std::vector<T>& va, const std::vector<T>& vb,
                    ElementType type, F f) {
  const std::optional<std::vector<int64_t>> dims = broadcast(a.dims, b.dims);
  if (!dims) throw Error(kBadInput, a.name, "constants of these shapes cannot be combined");
  const auto count = size_t(checked_elements(a.name, *dims));
  const std::vector<int64_t> sa = broadcast_strides(a, *dims), sb = broadcast_strides(b, *dims);
  std::vector<T> result(count);
  std::vector<int64_t> index(dims->size());
  int64_t ia = 0, ib = 0;
  for (size_t i = 0; i < count; ++i) {
    result[i] = f(va[size_t(ia)], vb[size_t(ib)]);
    for (size_t axis = dims->size(); axis-- > 0;) {
      ia += sa[axis], ib += sb[axis];
      if (++index[axis] < (*dims)[axis]) break;
      ia -= sa[axis] * (*dims)[axis], ib -= sb[axis] * (*dims)[axis];
      index[axis] = 0;
    }
  }
  return make_constant(a.name, type, *dims, result);
}

template <class Table>
auto find_row(const Table& table, const std::string& name) {
  return std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.name == name; });
}

}  // namespace

std::vector<int64_t> strides_of(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

Value decoded(const Value& x) {
  return x.quantizer ? make_constant(x.name, ElementType::kFloat32, x.dims, reals(x)) : x;
}

std::vector<double> doubles(const Value& x) {
  if (x.stored != ElementType::kFloat64) {
    const std::vector<float> numbers = reals(x);
    return {numbers.begin(), numbers.end()};
  }
  std::vector<double> numbers(size_t(x.elements()));
  if (!numbers.empty()) std::memcpy(numbers.data(), x.data->data(), numbers.size() * sizeof(double));
  return numbers;
}

Value permuted(const Value& x, const std::vector<int>& perm) {
  const std::vector<int64_t> own = strides_of(x.dims);
  std::vector<int64_t> dims(perm.size()), strides(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    dims[i] = x.dims[size_t(perm[i])];
    strides[i] = own[size_t(perm[i])];
  }
  Value y = strided(x, dims, 0, strides);
  if (y.quantizer && y.quantizer->scale.size() > 1)
    y.quantizer->axis = int(std::find(perm.begin(), perm.end(), x.quantizer->axis) - perm.begin());
  return y;
}

Value reshaped(const Value& x, std::vector<int64_t> dims) {
  Value y = movable(x);
  y.dims = std::move(dims);
  return y;
}

Value sliced(const Value& source, const Part& part) {
  const Value x = movable(source);
  const std::vector<int64_t> own = strides_of(x.dims);
  std::vector<int64_t> strides(own.size());
  int64_t offset = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    strides[i] = own[i] * part.step[i];
    offset += own[i] * part.begin[i];
  }
  return strided(x, part.size, offset, strides);
}

Value concatenated(const std::vector<const Value*>& xs, int axis) {
  std::vector<Value> parts;
  for (const Value* x : xs) parts.push_back(decoded(*x));
  std::vector<int64_t> dims = parts[0].dims;
  int64_t outer = 1, size = 0;
  for (int i = 0; i < axis; ++i) outer *= dims[size_t(i)];
  for (const Value& part : parts) {
    std::vector<int64_t> rest = part.dims;
    if (rest.size() != dims.size() || part.type != parts[0].type)
      throw Error(kBadInput, part.name, "constants of these types and ranks cannot be concatenated");
    size += rest[size_t(axis)];
    rest[size_t(axis)] = dims[size_t(axis)];
    if (rest != dims) throw Error(kBadInput, part.name, "constants of these shapes cannot be concatenated");
  }
  dims[size_t(axis)] = size;
  std::vector<uint8_t> bytes;
  for (int64_t o = 0; o < outer; ++o)
    for (const Value& part : parts) {
      const size_t row = part.data->size() / size_t(outer);
      const auto from = part.data->begin() + ptrdiff_t(size_t(o) * row);
      bytes.insert(bytes.end(), from, from + ptrdiff_t(row));
    }
  element_bytes(parts[0]);
  checked_elements(parts[0].name, dims);
  return shell(parts[0], std::move(dims), std::move(bytes));
}

Value gathered(const Value& source, const std::vector<int64_t>& indices, const std::vector<int64_t>& index_dims,
               int axis) {
  const Value x = movable(source);
  const auto first = x.dims.begin() + axis;
  const int64_t axis_size = *first, inner = std::accumulate(first + 1, x.dims.end(), int64_t{1}, std::multiplies<>());
  const int64_t outer = std::accumulate(x.dims.begin(), first, int64_t{1}, std::multiplies<>());
  const size_t row = size_t(inner) * element_bytes(x);
  std::vector<int64_t> dims(x.dims.begin(), first);
  dims.insert(dims.end(), index_dims.begin(), index_dims.end());
  dims.insert(dims.end(), first + 1, x.dims.end());
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(checked_elements(x.name, dims)) * element_bytes(x));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t index : indices) {
      if (index < 0) index += axis_size;
      if (index < 0 || index >= axis_size)
        throw Error(kBadInput, x.name, "an index into this constant is outside its shape");
      const auto from = x.data->begin() + ptrdiff_t(size_t(o * axis_size + index) * row);
      bytes.insert(bytes.end(), from, from + ptrdiff_t(row));
    }
  return shell(x, std::move(dims), std::move(bytes));
}

Value expanded(const Value& source, const std::vector<int64_t>& dims) {
  const Value x = movable(source);
  const std::optional<std::vector<int64_t>> both = broadcast(x.dims, dims);
  if (!both) throw Error(kBadInput, x.name, "cannot be expanded to the shape asked for");
  return strided(x, *both, 0, broadcast_strides(x, *both));
}

Value tiled(const Value& source, const std::vector<int64_t>& repeats) {
  Value x = movable(source);
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > std::numeric_limits<int32_t>::max())
      throw Error(kBadInput, x.name, "is tiled a negative number of times");
    std::vector<int64_t> order(size_t(x.dims[i] * repeats[i]));
    for (size_t k = 0; k < order.size(); ++k) order[k] = int64_t(k) % x.dims[i];
    x = gathered(x, order, {int64_t(order.size())}, int(i));
  }
  return x;
}

Value cast(const Value& x, ElementType type) {
  if (is_integer(x.stored) && !x.quantizer) {
    if (is_integer(type)) return make_constant(x.name, type, x.dims, integers(x));
    const std::vector<int64_t> numbers = integers(x);
    return make_constant(x.name, type, x.dims, std::vector<double>(numbers.begin(), numbers.end()));
  }
  return make_constant(x.name, type, x.dims, doubles(x));
}

std::optional<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {  // counted from the last axis
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1, db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return std::nullopt;
    dims[dims.size() - 1 - i] = da == 1 ? db : da;
  }
  return dims;
}

std::optional<Value> pointwise(const std::string& op, const Value& a, const Value& b) {
  const auto row = find_row(kBinary, op);
  if (row == std::end(kBinary)) return std::nullopt;
  const bool integer = is_integer(a.stored) && !a.quantizer && is_integer(b.stored) && !b.quantizer;
  if (integer && row->integer != nullptr)
    return broadcast_map(a, b, integers(a), integers(b), row->gives_bool ? ElementType::kBool : a.type, row->integer);
  if (row->real == nullptr || integer) return std::nullopt;
  const bool integer_result = is_integer(a.stored) && !a.quantizer;  // an integer base of Pow with a real exponent
  const ElementType type = row->gives_bool ? ElementType::kBool : integer_result ? a.type : ElementType::kFloat32;
  return broadcast_map(a, b, reals(a), reals(b), type, row->real);
}

std::optional<Value> pointwise(const std::string& op, const Value& x) {
  const auto row = find_row(kUnary, op);
  if (row == std::end(kUnary)) return std::nullopt;
  if (is_integer(x.stored) && !x.quantizer) {
    if (row->integer == nullptr) return std::nullopt;
    std::vector<int64_t> numbers = integers(x);
    std::transform(numbers.begin(), numbers.end(), numbers.begin(), row->integer);
    return make_constant(x.name, x.type, x.dims, numbers);
  }
  if (row->real == nullptr) return std::nullopt;
  std::vector<float> numbers = reals(x);
  std::transform(numbers.begin(), numbers.end(), numbers.begin(), row->real);
  return make_constant(x.name, ElementType::kFloat32, x.dims, numbers);
}

Value where(const Value& condition, const Value& a, const Value& b) {
  const std::optional<std::vector<int64_t>> ab = broadcast(a.dims, b.dims);
  const std::optional<std::vector<int64_t>> dims = ab ? broadcast(*ab, condition.dims) : std::nullopt;
  if (!dims) throw Error(kBadInput, a.name, "constants of these shapes cannot be combined");
  const Value c = expanded(condition, *dims), x = expanded(decoded(a), *dims), y = expanded(decoded(b), *dims);
  if (x.stored != y.stored) throw Error(kBadInput, a.name, "constants of two types cannot be combined");
  const std::vector<int64_t> choose = integers(c);
  const size_t width = element_bytes(x);
  std::vector<uint8_t> bytes(*y.data);
  for (size_t i = 0; i < choose.size(); ++i)
    if (choose[i] != 0) std::memcpy(bytes.data() + i * width, x.data->data() + i * width, width);
  return shell(x, *dims, std::move(bytes));
}

}  // namespace nacre::tools::onnx_import

// Arithmetic on constants, at import: what exporters compute shapes and weights with (Shape, Gather, Concat, ...).
// Integers are computed in int64, reals in float32, in any of the source's types. Quantizers survive permuted() and,
// per tensor, what only moves elements; elsewhere codes are decoded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

// A strided part: element i of an axis is x[begin + i step], i < size.
struct Part {
  std::vector<int64_t> begin, size, step;
};

std::vector<int64_t> strides_of(const std::vector<int64_t>& dims);  // of elements in order

Value permuted(const Value& x, const std::vector<int>& perm);
Value reshaped(const Value& x, std::vector<int64_t> dims);
Value sliced(const Value& x, const Part& part);
Value concatenated(const std::vector<const Value*>& xs, int axis);
Value gathered(const Value& x, const std::vector<int64_t>& indices, const std::vector<int64_t>& index_dims, int axis);
Value expanded(const Value& x, const std::vector<int64_t>& dims);  // numpy broadcast of x's dims and dims
Value tiled(const Value& x, const std::vector<int64_t>& repeats);
Value cast(const Value& x, ElementType type);
Value decoded(const Value& x);  // real values instead of codes
std::vector<double> doubles(const Value& x);

// numpy broadcast; nullopt if the dims do not fit.
std::optional<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// ONNX operators by name, elementwise with broadcast; nullopt if the name is none or the types do not fit.
std::optional<Value> pointwise(const std::string& op, const Value& a, const Value& b);
std::optional<Value> pointwise(const std::string& op, const Value& x);
Value where(const Value& condition, const Value& a, const Value& b);

}  // namespace nacre::tools::onnx_import

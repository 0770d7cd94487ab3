// Rearranges and computes constants at import. Exporters compute shapes and weights with Shape, Gather, Concat, ...
// Integers are computed in int64, reals in float32 (cast: float64). permuted() keeps any quantizer. reshaped, sliced,
// gathered, expanded and tiled keep a quantizer with one scale. The other functions decode codes to reals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

// A strided part of a tensor. Element i of an axis is x[begin + i step], i < size.
struct Part {
  std::vector<int64_t> begin, size, step;
};

std::vector<int64_t> strides_of(const std::vector<int64_t>& dims);  // strides of a dense tensor

Value permuted(const Value& x, const std::vector<int>& perm);
Value reshaped(const Value& x, std::vector<int64_t> dims);
Value sliced(const Value& x, const Part& part);
Value concatenated(const std::vector<const Value*>& xs, int axis);
Value gathered(const Value& x, const std::vector<int64_t>& indices, const std::vector<int64_t>& index_dims, int axis);
Value expanded(const Value& x, const std::vector<int64_t>& dims);  // broadcasts x to `dims`, as numpy
Value tiled(const Value& x, const std::vector<int64_t>& repeats);
Value cast(const Value& x, ElementType type);
Value decoded(const Value& x);  // real values in place of codes
std::vector<double> doubles(const Value& x);

// Returns the dims of a numpy broadcast, or nullopt if a and b do not fit.
std::optional<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// Apply the ONNX operator named `op` to each element, with broadcast. Return nullopt if no such operator is known or
// the types do not fit.
std::optional<Value> pointwise(const std::string& op, const Value& a, const Value& b);
std::optional<Value> pointwise(const std::string& op, const Value& x);
Value where(const Value& condition, const Value& a, const Value& b);

}  // namespace nacre::tools::onnx_import

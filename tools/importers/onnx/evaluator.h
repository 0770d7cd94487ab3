// Computes operators at import if all their operands are constants, as ONNX defines them.
// Exporters make shapes, masks and indices with such operators. Three tables list small functions, each for one
// operator or for several similar ones:
//
//   evaluator.cc           reads and gives constants, finds an operator in the tables
//   evaluate_pointwise.cc  arithmetic, comparisons, logic, Where, Clip
//   evaluate_move.cc       GatherND, Scatter*, Trilu, Pad, Range, NonZero ...
//   evaluate_reduce.cc     Reduce*, Arg*, CumSum, TopK, MatMul
//
// Integers and bools are computed as int64 and wrap to their type. Reals are computed as double and rounded to their
// type; a single + - * / or sqrt then gives the result of the type's own arithmetic. A result has at most 2^31 - 1
// elements. The operands and results of a file together take at most the memory that Import::spend() allows: 256 MiB
// plus 32 times the file, at 8 bytes per element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

using Dims = std::vector<int64_t>;

struct Tensor {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> dims;
  bool whole = false;             // the tensor's numbers are in `integers`, else in `reals`
  std::vector<int64_t> integers;  // bools: 0 and 1
  std::vector<double> reals;

  size_t size() const { return whole ? integers.size() : reals.size(); }
  int rank() const { return int(dims.size()); }
  // Calls f with the vector that holds the numbers.
  template <class F>
  decltype(auto) visit(F f) const {
    return whole ? f(integers) : f(reals);
  }
};

// One node whose operands are all constants.
class Evaluation {
 public:
  Evaluation(Import& import, const Source& source);

  bool has(int input) const { return source.given(input); }
  int count() const { return int(inputs_.size()); }
  const Tensor& input(int index) const;
  std::vector<int64_t> list(int index, const char* what) const;  // an operand as a list of integers
  int64_t number(int index, const char* what) const;             // an operand as one integer

  // Makes a tensor of zeros, and asks for its memory first.
  Tensor make(ElementType type, std::vector<int64_t> dims) const;
  // Returns y with y_i = x_from[i], or `fill` if from[i] is -1.
  Tensor taken(const Tensor& x, std::vector<int64_t> dims, const std::vector<int64_t>& from, int64_t fill = 0) const;
  std::vector<int64_t> places(const std::vector<int64_t>& dims) const;  // an empty list with room for product(dims)
  void spend(uint64_t elements) const { import_.spend(elements * 8); }
  [[noreturn]] void refuse_types() const { source.malformed("has no meaning for operands of these types"); }
  void give(Tensor y, int output = 0) const;  // makes y the node's output; wraps or rounds its numbers to y's type

  const Source& source;

 private:
  Import& import_;
  std::vector<std::optional<Tensor>> inputs_;
};

struct Evaluator {
  const char* op;
  void (*run)(const Evaluation& e);
};
std::span<const Evaluator> pointwise_evaluators();
std::span<const Evaluator> move_evaluators();
std::span<const Evaluator> reduce_evaluators();
const Evaluator* find_evaluator(const std::string& op);
bool is_computed_at_import(const std::string& domain, const std::string& op);  // if its operands are constants
[[noreturn]] void refuse_at_run_time(const Source& source);
// Computes the node if it can, and returns whether it did. `imported` says that the operator has an importer too.
bool evaluate(Import& import, const Source& source, bool imported);

// Returns whether evaluate() computes with constants of the type.
bool is_evaluated(ElementType type);
int64_t wrapped(ElementType type, int64_t number);  // modulo 2^bits; a bool becomes 0 or 1

int64_t product(std::span<const int64_t> dims);
// Calls f(flat) for every index of `dims` in order, with flat = sum_k index_k strides_k.
template <class F>
void each_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, F f) {
  std::vector<int64_t> index(dims.size());
  const int64_t count = product(dims);
  int64_t flat = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(flat);
    for (size_t axis = dims.size(); axis-- > 0;) {
      flat += strides[axis];
      if (++index[axis] < dims[axis]) break;
      flat -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace nacre::tools::onnx_import

// Operators whose operands are all constants are computed at import, as ONNX defines them and in their own types: what
// exporters make shapes, masks and indices with. A table of small functions, one per operator or family:
//
//   evaluator.cc           constants in and out, the table
//   evaluate_pointwise.cc  arithmetic, comparisons, logic, Where, Cast
//   evaluate_move.cc       Gather*, Scatter*, Trilu, Pad, Range, NonZero ...
//   evaluate_reduce.cc     Reduce*, Arg*, CumSum, TopK, MatMul
//
// Integers and bools are computed as int64 and wrap to their type; reals are computed as double and rounded to theirs,
// which for + - * / and sqrt is what the type's own arithmetic gives. A result has at most 2^31 - 1 elements and all
// of a file together take at most what Import::spend() allows: 256 MiB and 8 times the file, at 8 bytes per element
// that is read or made.
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
  bool whole = false;             // the numbers are `integers`, else `reals`
  std::vector<int64_t> integers;  // bools: 0 and 1
  std::vector<double> reals;

  size_t size() const { return whole ? integers.size() : reals.size(); }
  int rank() const { return int(dims.size()); }
  // f(numbers): on the vector that there is.
  template <class F>
  decltype(auto) visit(F f) const {
    return whole ? f(integers) : f(reals);
  }
};

// One node, all of whose operands are constants.
class Evaluation {
 public:
  Evaluation(Import& import, const Source& source);

  bool has(int input) const { return source.given(input); }
  int count() const { return int(inputs_.size()); }
  const Tensor& input(int index) const;
  std::vector<int64_t> list(int index, const char* what) const;  // an operand as a list of integers
  int64_t number(int index, const char* what) const;             // of one integer

  // Makes a tensor of zeros; asks for its memory.
  Tensor make(ElementType type, std::vector<int64_t> dims) const;
  // y_i = x_from[i]; `fill` where from[i] is -1.
  Tensor taken(const Tensor& x, std::vector<int64_t> dims, const std::vector<int64_t>& from, int64_t fill = 0) const;
  std::vector<int64_t> places(const std::vector<int64_t>& dims) const;  // room for that many places; asks for it
  void spend(uint64_t elements) const { import_.spend(elements * 8); }
  [[noreturn]] void refuse_types() const { source.malformed("has no meaning for operands of these types"); }
  void give(Tensor y, int output = 0) const;  // its numbers become those of its type

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
bool is_computed_at_import(const std::string& domain, const std::string& op);  // where its operands are constants
[[noreturn]] void refuse_at_run_time(const Source& source);
// True, if the node was computed. `imported`: the operator has an importer too.
bool evaluate(Import& import, const Source& source, bool imported);

// Whether constants of this type are computed with.
bool is_evaluated(ElementType type);
int64_t wrapped(ElementType type, int64_t number);  // modulo 2^bits; of bool: whether it is not 0

int64_t product(std::span<const int64_t> dims);
// f(flat): for every index of `dims` in order, with flat = sum_k index_k strides_k.
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

#include "tools/importers/onnx/evaluator.h"

#include <algorithm>
#include <unordered_map>

#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

Tensor tensor_of(const Operand& x) {
  Tensor t;
  t.type = x.constant->quantizer ? ElementType::kFloat32 : x.constant->stored;
  if (x.kept == ElementType::kFloat64) t.type = x.kept;
  t.dims = x.dims;
  t.whole = is_integer(t.type);
  if (t.whole) t.integers = integers(*x.constant);
  else t.reals = doubles(x.numbers());
  return t;
}

}  // namespace

bool is_evaluated(ElementType type) {
  using enum ElementType;
  constexpr ElementType kTypes[] = {kFloat32, kFloat64, kInt8, kUint8, kInt16, kInt32, kInt64, kUint32, kBool};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

int64_t wrapped(ElementType type, int64_t number) {
  switch (type) {
    case ElementType::kInt8: return int8_t(uint64_t(number));
    case ElementType::kUint8: return uint8_t(uint64_t(number));
    case ElementType::kInt16: return int16_t(uint64_t(number));
    case ElementType::kInt32: return int32_t(uint64_t(number));
    case ElementType::kUint32: return uint32_t(uint64_t(number));
    case ElementType::kBool: return number != 0;
    default: return number;
  }
}

int64_t product(std::span<const int64_t> dims) {
  int64_t result = 1;
  for (const int64_t dim : dims) result *= dim;
  return result;
}

Evaluation::Evaluation(Import& import, const Source& node) : source(node), import_(import) {
  for (const OperandPtr& x : node.inputs) {
    if (x) spend(uint64_t(x->constant->elements()));
    inputs_.push_back(x ? std::optional(tensor_of(*x)) : std::nullopt);
  }
}

const Tensor& Evaluation::input(int index) const {
  source.operand(index);  // refuses a missing operand
  return *inputs_[size_t(index)];
}

std::vector<int64_t> Evaluation::list(int index, const char* what) const {
  const Tensor& x = input(index);
  if (!x.whole || x.rank() > 1) source.malformed(std::string(what) + " is no list of integers");
  return x.integers;
}

int64_t Evaluation::number(int index, const char* what) const {
  const Tensor& x = input(index);
  if (!x.whole || x.size() != 1) source.malformed(std::string(what) + " is not one integer");
  return x.integers[0];
}

Tensor Evaluation::make(ElementType type, std::vector<int64_t> dims) const {
  const auto elements = size_t(checked_elements(source.place, dims));
  spend(elements);
  Tensor y;
  y.type = type;
  y.dims = std::move(dims);
  y.whole = is_integer(type);
  if (y.whole) y.integers.resize(elements);
  else y.reals.resize(elements);
  return y;
}

std::vector<int64_t> Evaluation::places(const std::vector<int64_t>& dims) const {
  const int64_t elements = checked_elements(source.place, dims);
  spend(uint64_t(elements));
  std::vector<int64_t> room;
  room.reserve(size_t(elements));
  return room;
}

Tensor Evaluation::taken(const Tensor& x, std::vector<int64_t> dims, const std::vector<int64_t>& from,
                         int64_t fill) const {
  Tensor y = make(x.type, std::move(dims));
  const auto take = [&](const auto& numbers, auto& to) {
    using T = std::decay_t<decltype(numbers[0])>;
    for (size_t i = 0; i < from.size(); ++i) to[i] = from[i] < 0 ? T(fill) : numbers[size_t(from[i])];
  };
  if (x.whole) take(x.integers, y.integers);
  else take(x.reals, y.reals);
  return y;
}

void Evaluation::give(Tensor y, int output) const {
  for (int64_t& number : y.integers) number = wrapped(y.type, number);
  import_.give_constant(
      output, y.whole ? make_constant("", y.type, y.dims, y.integers) : make_constant("", y.type, y.dims, y.reals));
}

const Evaluator* find_evaluator(const std::string& op) {
  static const auto kTable = [] {
    std::unordered_map<std::string, const Evaluator*> table;
    for (const auto part : {pointwise_evaluators(), move_evaluators(), reduce_evaluators()})
      for (const Evaluator& evaluator : part) table.emplace(evaluator.op, &evaluator);
    return table;
  }();
  const auto found = kTable.find(op);
  return found != kTable.end() ? found->second : nullptr;
}

bool is_computed_at_import(const std::string& domain, const std::string& op) {
  return domain.empty() && (find_evaluator(op) != nullptr || op == "If" || op == "Loop" || op == "Scan");
}

void refuse_at_run_time(const Source& source) {
  for (const OperandPtr& x : source.inputs)
    if (x && !x->constant)
      source.refuse("is supported on stored values only (" + x->name + " is computed at run time)");
  source.refuse("is not supported on operands of these types");
}

// An operator that has an importer is left to it in two cases. A parameter that is to be trained needs the importer,
// which records how its elements move (computed.cc). Quantized codes keep their quantizer in the importer. Operators
// of opsets below 7 are never computed here.
bool evaluate(Import& import, const Source& source, bool imported) {
  const Evaluator* evaluator = source.main ? find_evaluator(source.proto.op_type()) : nullptr;
  if (evaluator == nullptr || source.opset < 7) return false;
  for (const OperandPtr& x : source.inputs) {
    if (!x) continue;
    if (!x->constant || !(is_evaluated(x->constant->stored) || x->constant->quantizer)) return false;
    if (imported &&
        (x->constant->quantizer || (import.options().train && import.parameters().is_trainable(*x->constant))))
      return false;
  }
  evaluator->run(Evaluation(import, source));
  return true;
}

}  // namespace nacre::tools::onnx_import

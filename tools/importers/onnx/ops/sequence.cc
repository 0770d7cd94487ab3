// Imports sequences of tensors whose length is known at import. They are lists of operands and no values of the
// graph.
#include <algorithm>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Parts = std::vector<OperandPtr>;

constexpr size_t kMostParts = 16384;

const Parts& parts_of(const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (!x->sequence) source.malformed("its input " + x->name + " is no sequence");
  return *x->sequence;
}

// Gives the parts as a sequence. Counts one use more for each part, because a reader of the sequence may read it.
void give_sequence(Import& import, Parts parts) {
  for (const OperandPtr& part : parts) ++part->uses;
  auto y = std::make_shared<Operand>();
  y->sequence = std::make_shared<const Parts>(std::move(parts));
  import.give(0, std::move(y));
}

// Returns input `input` as a position among `count` parts. A negative position counts from the end, and an omitted
// one is `last`.
ptrdiff_t position(const Source& source, int input, int64_t count, int64_t last) {
  int64_t at = last;
  if (source.given(input)) {
    const Value& given = source.constant(input, "its position");
    if (!is_integer(given.stored) || given.elements() != 1) source.malformed("its position is not one integer");
    at = integers(given)[0];
  }
  if (at < -count || at > last) source.malformed("its position is outside its sequence");
  return ptrdiff_t(at < 0 ? at + count : at);
}

// Returns the position of a part; the last part if it is omitted.
ptrdiff_t position(const Source& source, int input, const Parts& parts) {
  return position(source, input, int64_t(parts.size()), int64_t(parts.size()) - 1);
}

void empty(Import& import, const Source&) { give_sequence(import, {}); }
void construct(Import& import, const Source& source) { give_sequence(import, source.inputs); }

// Splits x along the axis. Input 1 is one size for all parts (the last part may be smaller), or a list of sizes.
// Without input 1 all parts have size 1, and keepdims = 0 drops the axis.
void split_to_sequence(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int64_t axis = source.axis(source.integer("axis", 0), x->rank());
  const int64_t size = x->dims[size_t(axis)];
  std::vector<int64_t> sizes = {1};
  const bool is_given = source.given(1), keeps = is_given || source.integer("keepdims", 1) != 0;
  bool of_each = false;
  if (is_given) {
    const Value& given = source.constant(1, "its sizes");
    if (!is_integer(given.stored) || given.dims.size() > 1) source.malformed("its sizes are no list of integers");
    sizes = integers(given);
    of_each = given.dims.size() == 1;
  }
  if (!of_each) {
    const int64_t part = sizes[0];
    if (part < 1) source.malformed("its parts have no elements");
    import.spend(uint64_t(size) * 8);
    sizes.assign(size_t((size + part - 1) / part), part);
    if (size % part != 0) sizes.back() = size % part;
  }
  if (sizes.size() > kMostParts)
    source.refuse("makes " + std::to_string(sizes.size()) + " parts, of which each is a step: a model holds at most " +
                      std::to_string(kMostParts),
                  "split it into larger parts");
  Formula f(import, source);
  std::vector<Term> parts = f.several("Split", {f.input(0), f.list(sizes)}, int(sizes.size()), {{"axis", axis}});
  if (!keeps)
    for (Term& part : parts) part = f("Squeeze", {part, f.list({axis})});
  f.give(f("SequenceConstruct", parts));
  f.run();
}

void insert(Import& import, const Source& source) {
  Parts parts = parts_of(source);
  const auto count = int64_t(parts.size());
  parts.insert(parts.begin() + position(source, 2, count, count), source.operand(1));
  give_sequence(import, std::move(parts));
}

void erase(Import& import, const Source& source) {
  Parts parts = parts_of(source);
  if (parts.empty()) source.malformed("its sequence is empty");
  parts.erase(parts.begin() + position(source, 1, parts));
  give_sequence(import, std::move(parts));
}

void at(Import& import, const Source& source) {
  const Parts& parts = parts_of(source);
  if (parts.empty()) source.malformed("its sequence is empty");
  Formula f(import, source);
  f.give(f("Identity", {f.value(parts[size_t(position(source, 1, parts))])}));
  f.run();
}

void length(Import& import, const Source& source) {
  const std::vector<int64_t> count = {int64_t(parts_of(source).size())};
  import.give_constant(0, make_constant("", ElementType::kInt64, {}, count));
}

void concatenate(Import& import, const Source& source) {
  const Parts& parts = parts_of(source);
  if (parts.empty()) source.refuse("its sequence is empty");
  const bool adds_axis = source.integer("new_axis", 0) != 0;
  const int64_t axis = source.axis(source.integer("axis", 0), parts[0]->rank() + (adds_axis ? 1 : 0));
  Formula f(import, source);
  std::vector<Term> terms;
  for (const OperandPtr& part : parts)
    terms.push_back(adds_axis ? f("Unsqueeze", {f.value(part), f.list({axis})}) : f.value(part));
  f.give(terms.size() == 1 ? f("Identity", terms) : f("Concat", terms, {{"axis", axis}}));
  f.run();
}

constexpr OperatorImporter kSequenceImporters[] = {
    {"SequenceEmpty", empty},         {"SplitToSequence", split_to_sequence},
    {"SequenceConstruct", construct}, {"SequenceInsert", insert},
    {"SequenceErase", erase},         {"SequenceAt", at},
    {"SequenceLength", length},       {"ConcatFromSequence", concatenate},
};

}  // namespace

void check_sequences(const Source& source) {
  const std::string& op = source.proto.op_type();
  for (const OperandPtr& x : source.inputs) {
    if (!x || !x->sequence) continue;
    const bool reads = std::ranges::find(kSequenceImporters, op, &OperatorImporter::op) != std::end(kSequenceImporters);
    if (x != source.inputs[0] || !(reads || op == "Identity") || op == "SequenceConstruct")
      source.refuse("reads " + x->name + ", which is a sequence of tensors");
  }
}

std::span<const OperatorImporter> sequence_importers() { return kSequenceImporters; }

}  // namespace nacre::tools::onnx_import

#include "tools/importers/tflite/steps.h"

#include <cstring>
#include <numeric>

namespace nacre::tools::tflite {

int64_t product_of(const std::vector<int64_t>& dims, size_t first, size_t last) {
  int64_t product = 1;  // the dims are a value's, so it stays below 2^31
  for (size_t i = first; i < last; ++i) product *= dims[i];
  return product;
}

ValueId Steps::operator()(Op op, Ids inputs, std::vector<Word> words, ElementType type) {
  const ValueId y = importer_.between(inputs[0], "/part");
  if (type != ElementType::kNone) {
    importer_.value(y).type = type;
    importer_.value(y).quantizer.reset();
  }
  Node node{.op = op, .name = "", .words = {}, .inputs = std::move(inputs), .outputs = {y}};
  for (const Word& word : words) set_integer(node, word.name, word.number);
  importer_.emit(op_, std::move(node));
  return y;
}

ValueId Steps::sum(ValueId x, int axis) {
  if (is_whole(x)) return folded(x, axis, [&](ValueId a, ValueId b) { return (*this)(Op::kAdd, {a, b}); });
  return (*this)(Op::kReduce, {x}, {{"function", Reduce::kSum}, {"axes", 1 << axis}, {"keep_dims", 1}},
                 ElementType::kFloat32);
}

ValueId Steps::extreme(ValueId x, int axis, bool maximum) {
  if (is_whole(x))
    return folded(x, axis,
                  [&](ValueId a, ValueId b) { return binary(maximum ? Binary::kMaximum : Binary::kMinimum, a, b); });
  const int function = maximum ? Reduce::kMax : Reduce::kMin;
  return (*this)(Op::kReduce, {x}, {{"function", function}, {"axes", 1 << axis}, {"keep_dims", 1}});
}

ValueId Steps::arg_max(ValueId x, int axis) {
  return (*this)(Op::kArgMax, {x}, {{"axis", axis}, {"keep_dims", 1}}, ElementType::kInt32);
}

ValueId Steps::folded(ValueId x, int axis, const std::function<ValueId(ValueId, ValueId)>& f) {
  for (int64_t n = dims(x)[size_t(axis)]; n > 1; n = n / 2 + n % 2) {
    const int64_t half = n / 2;
    const ValueId y = f(slice(x, axis, 0, half), slice(x, axis, half, half));
    x = n % 2 == 0 ? y : concat({y, slice(x, axis, n - 1, 1)}, axis);
  }
  return x;
}

// Finds the largest number, replaces it by -infinity or the lowest integer, and repeats.
Ordered Steps::greatest(ValueId x, int64_t count) {
  constexpr int64_t kMostOrdered = 256;
  if (count > kMostOrdered) importer_.unsupported(op_, "more than 256 elements, each of which is some steps");
  const int axis = int(dims(x).size()) - 1;
  Ints of_axis(dims(x).size(), 1);
  of_axis.back() = dims(x).back();
  const bool whole = is_whole(x);
  const int64_t least = type(x) == ElementType::kInt64 ? INT64_MIN : INT32_MIN;
  const ValueId counted_axis = counted(ElementType::kInt32, of_axis), zero = number(x, 0);
  const ValueId taken = whole ? one_like(x, least) : number(x, -kInfinity);
  ValueId left = whole ? x : (*this)(Op::kCopy, {x}, {}, ElementType::kFloat32), free = filled(of_axis, 1);
  Ids values, places;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(extreme(left, axis, true));
    const ValueId equal = compare(Compare::kEqual, left, values.back());
    places.push_back(arg_max(select(equal, free, zero), axis));
    if (i + 1 == count) break;
    const ValueId hit = compare(Compare::kEqual, places.back(), counted_axis);
    left = select(hit, taken, left);
    free = select(hit, zero, free);
  }
  return {concat(values, axis), concat(places, axis)};
}

ValueId Steps::reshape(ValueId x, Ints to) {
  if (dims(x) == to) return x;
  const ValueId y = importer_.between(x, "/shape");
  importer_.emit_reshape(op_, x, to, y);
  return y;
}

ValueId Steps::transpose(ValueId x, const Ints& perm) {
  Node node{.op = Op::kTranspose, .name = "", .words = {}, .inputs = {x}, .outputs = {importer_.between(x, "/turned")}};
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", int(perm[i]), int(i));
  const ValueId y = node.outputs[0];
  importer_.emit(op_, std::move(node));
  return y;
}

ValueId Steps::slice(ValueId x, int axis, int64_t begin, int64_t size, int64_t step) {
  return cut_axis(importer_, op_, x, axis, {begin, size, step}, "/cut");
}

ValueId Steps::concat(Ids parts, int axis) {
  const ValueId like = parts[0];
  parts = in_groups(importer_, op_, std::move(parts), axis, like);
  return parts.size() == 1 ? parts[0] : (*this)(Op::kConcat, std::move(parts), {{"axis", axis}});
}

ValueId Steps::rows(ValueId table, ValueId ids) {
  // Rows from a table with a scale per row have no common scale, so they are real numbers.
  const Value& t = importer_.value(table);
  const bool by_row = t.quantizer && t.quantizer->scale.size() > 1;
  return (*this)(Op::kEmbedding, {table, ids}, {}, by_row ? t.type : ElementType::kNone);
}

ValueId Steps::take(ValueId x, ValueId ids, int axis) {
  Ints of = dims(x);
  const auto at = size_t(axis);
  const int64_t before = product_of(of, 0, at), entries = of[at], after = product_of(of, at + 1, of.size());
  if (before > 1) x = transpose(reshape(x, {before, entries, after}), {1, 0, 2});
  ValueId y = rows(reshape(x, {entries, before * after}), ids);
  if (before > 1) y = transpose(reshape(y, {dims(ids)[0], before, after}), {1, 0, 2});
  of[at] = dims(ids)[0];
  return reshape(y, of);
}

ValueId Steps::constant(ElementType type, Ints dims, std::vector<uint8_t> bytes) {
  const ValueId id = importer_.between(importer_.input(op_, 0), "/number");
  Value& v = importer_.value(id);
  v.type = v.stored = type;
  v.quantizer.reset();
  v.dims = std::move(dims);
  v.region = Region::kWeights;
  v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return id;
}

ValueId Steps::numbers(const Ints& dims, const std::vector<float>& numbers) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  return constant(ElementType::kFloat32, dims, {bytes, bytes + numbers.size() * sizeof(float)});
}

ValueId Steps::integers(ElementType type, const Ints& dims, const Ints& numbers) {
  std::vector<uint8_t> bytes;
  for (const int64_t number : numbers) {
    uint8_t element[8];
    std::memcpy(element, &number, sizeof number);  // little-endian: the low half comes first
    bytes.insert(bytes.end(), element, element + storage_bytes(type, 1));
  }
  return constant(type, dims, std::move(bytes));
}

void Steps::ask(int64_t numbers) const {
  importer_.graph().budget.take(uint64_t(numbers) * 16, op_.name, "the numbers of its steps", "use a smaller network");
}

ValueId Steps::filled(const Ints& dims, float v) {
  const int64_t count = product_of(dims, 0, dims.size());
  ask(count);
  return numbers(dims, std::vector<float>(size_t(count), v));
}

ValueId Steps::counted(ElementType type, const Ints& dims) {
  ask(product_of(dims, 0, dims.size()));
  Ints count(size_t(product_of(dims, 0, dims.size())));
  std::iota(count.begin(), count.end(), int64_t{0});
  return type == ElementType::kFloat32 ? numbers(dims, std::vector<float>(count.begin(), count.end()))
                                       : integers(type, dims, count);
}

ValueId Steps::one_like(ValueId x, int64_t v) {
  return is_whole(x) ? integers(type(x), Ints(dims(x).size(), 1), {v}) : number(x, float(v));
}

// Makes y the output. If the last node made y for this operator, with the output's type, that node writes the output
// itself. Otherwise a reshape node does.
void Steps::give(ValueId y, size_t output) {
  const ValueId out = importer_.output(op_, output);
  std::vector<Node>& nodes = importer_.graph().nodes;
  if (y < first_ || nodes.empty() || nodes.back().outputs != Ids{y} || type(y) != type(out))
    return importer_.emit_reshape(op_, y, dims(y), out);
  nodes.back().outputs[0] = out;
  importer_.value(out).dims = dims(y);
}

}  // namespace nacre::tools::tflite

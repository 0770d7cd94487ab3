// Imports operators that take elements from, or put them at, places that the file stores. Most become one Gather from
// the flat tensor. Indices that are computed at run time go to indexed.cc and scatter.cc.
//
//   y = concat(x, updates)[places]      places holds the source of each element of y, known at import
//
// With a reduction (add, mul, min, max) several updates of one place are combined in rounds. Round r has the r-th
// update of each place. A place without an r-th update gets a number that changes nothing.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

int64_t elements_of(const Ints& dims) { return product_of(dims, 0, dims.size()); }

// Returns the strides of a dense tensor.
Ints strides_of(const Ints& dims) {
  Ints strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

// Calls visit(index) for every index into `dims`, the last axis fastest.
void each_index(const Ints& dims, const std::function<void(const Ints&)>& visit) {
  Ints index(dims.size(), 0);
  for (int64_t left = elements_of(dims); left > 0; --left) {
    visit(index);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

int64_t place_of(const Ints& index, const Ints& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

int64_t within(const Source& source, int64_t index, int64_t dim) {
  if (index < -dim || index >= dim) source.malformed("an index is outside its input");
  return index < 0 ? index + dim : index;
}

struct Indices {
  Ints dims, numbers;
};

Indices indices_of(Import& import, const Source& source, int input) {
  const Value& value = source.constant(input, "its indices");
  if (!is_integer(value.stored) || value.quantizer) source.malformed("its indices are no integers");
  spend_elements(import, value);
  return {value.dims, integers(value)};
}

Term flat(Formula& f, const Term& x) { return f.reshape(x, {-1}); }

void give_places(Import& import, const Source& source, const Ints& places, const Ints& dims) {
  import.spend(places.size() * 8);
  Formula f(import, source);
  f.give(f.reshape(f("Gather", {flat(f, f.input(0)), f.list(places)}, {{"axis", int64_t{0}}}), dims));
  f.run();
}

// Imports GatherElements with indices of run time [.., j, ..], whose other axes are those of x [.., c, ..]. Each index,
// plus c if it is negative, is compared with 0 to c - 1. The elements of x [.., 1, c, ..] whose number is equal are
// summed over c.
void gather_compared(Import& import, const Source& source, size_t axis) {
  const OperandPtr &x = source.operand(0), &indices = source.operand(1);
  Ints like = x->dims, beside(x->dims.size() + 1, 1);
  like[axis] = indices->dims[axis];
  if (like != indices->dims) source.refuse("its indices, computed at run time, are fewer than its elements");
  if (x->rank() == kMaxRank) source.refuse("its indices are computed at run time, and its input has 8 axes");
  const int64_t dim = x->dims[axis], next = int64_t(axis) + 1;
  beside[axis + 1] = dim;
  Formula f(import, source);
  const Term given = f.to_real(f.input(1)), from_end = f("Add", {given, f.number(float(dim))});
  const Term index = f("Where", {f("Less", {given, f.number(0)}), from_end, given});
  const Term hit = f("Equal", {f("Unsqueeze", {index, f.list({next})}), f.counted(beside)});
  const Term chosen = f("Where", {hit, f("Unsqueeze", {f.input(0), f.list({int64_t(axis)})}), f.zero_of(x->type)});
  f.give(f.reduce("ReduceSum", chosen, {next}, false));
  f.run();
}

// y[i] = x[i], with indices[i] in place of i along `axis`
void gather_elements(Import& import, const Source& source) {
  const Ints& dims = source.operand(0)->dims;
  if (source.operand(1)->rank() != int(dims.size())) source.malformed("its indices have another rank than its input");
  if (!source.operand(1)->constant)
    return gather_compared(import, source, size_t(source.axis(source.integer("axis", 0), int(dims.size()))));
  const Indices indices = indices_of(import, source, 1);
  const auto axis = size_t(source.axis(source.integer("axis", 0), int(dims.size())));
  const Ints strides = strides_of(dims);
  Ints places;
  each_index(indices.dims, [&](Ints index) {
    for (size_t i = 0; i < dims.size(); ++i)
      if (index[i] >= dims[i] && i != axis) source.malformed("its indices are larger than its input");
    index[axis] = within(source, indices.numbers[places.size()], dims[axis]);
    places.push_back(place_of(index, strides));
  });
  give_places(import, source, places, indices.dims);
}

// The rows of x that the tuples in the last axis of `indices` [.., k] name: the flat index at which each row begins,
// and the number of elements in a row.
struct Rows {
  Ints first;
  int64_t width;
};

Rows rows_of(const Source& source, const Ints& dims, const Indices& indices, size_t batch) {
  if (indices.dims.empty()) source.malformed("its indices have no axis");
  if (indices.numbers.empty()) source.refuse("its indices are empty: they have no elements");
  const int64_t k = indices.dims.back();
  if (k < 1 || size_t(k) + batch > dims.size())
    source.malformed("its indices have more numbers than its input has axes");
  for (size_t i = 0; i < batch; ++i)
    if (i + 1 >= indices.dims.size() || indices.dims[i] != dims[i]) source.malformed("its batch_dims do not fit");
  const Ints strides = strides_of(dims);
  const Ints of_batch(indices.dims.begin(), indices.dims.begin() + int64_t(batch));
  const auto rows = int64_t(indices.numbers.size()) / k, batches = elements_of(of_batch);
  Rows made{{}, product_of(dims, batch + size_t(k), dims.size())};
  const int64_t batch_stride = product_of(dims, batch, dims.size());
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = row / (rows / batches) * batch_stride;
    for (int64_t i = 0; i < k; ++i) {
      const auto axis = batch + size_t(i);
      place += within(source, indices.numbers[size_t(row * k + i)], dims[axis]) * strides[axis];
    }
    made.first.push_back(place);
  }
  return made;
}

Ints places_of(const Rows& rows) {
  Ints places;
  for (const int64_t first : rows.first)
    for (int64_t i = 0; i < rows.width; ++i) places.push_back(first + i);
  return places;
}

void gather_nd(Import& import, const Source& source) {
  if (!source.operand(1)->constant) return gather_tuples_at_run_time(import, source);
  const Ints& dims = source.operand(0)->dims;
  const Indices indices = indices_of(import, source, 1);
  const int64_t batch = source.integer("batch_dims", 0);
  if (batch < 0 || batch >= int64_t(dims.size())) source.malformed("its batch_dims are outside the rank");
  const Rows rows = rows_of(source, dims, indices, size_t(batch));
  import.spend(rows.first.size() * uint64_t(rows.width) * 8);
  Ints result(indices.dims.begin(), indices.dims.end() - 1);
  result.insert(result.end(), dims.begin() + batch + indices.dims.back(), dims.end());
  give_places(import, source, places_of(rows), result);
}

// Gives x with update u at targets[u]. The last of several updates counts.
void put(Import& import, const Source& source, int updates, const Ints& targets) {
  const Ints& dims = source.operand(0)->dims;
  const int64_t elements = elements_of(dims);
  import.spend(uint64_t(elements) * 8);
  Ints places(size_t(elements), 0);
  std::iota(places.begin(), places.end(), int64_t{0});
  for (size_t u = 0; u < targets.size(); ++u) places[size_t(targets[u])] = elements + int64_t(u);
  Formula f(import, source);
  const Term all = f("Concat", {flat(f, f.input(0)), flat(f, f.input(updates))}, {{"axis", int64_t{0}}});
  f.give(f.reshape(f("Gather", {all, f.list(places)}, {{"axis", int64_t{0}}}), dims));
  f.run();
}

struct Reduction {
  const char *name, *op;
  float nothing;  // an update that changes nothing
};
constexpr Reduction kReductions[] = {{"add", "Add", 0},
                                     {"mul", "Mul", 1},
                                     {"max", "Max", -std::numeric_limits<float>::infinity()},
                                     {"min", "Min", std::numeric_limits<float>::infinity()}};

void combine(Import& import, const Source& source, const Reduction& reduction, const Ints& targets) {
  constexpr size_t kMaxRounds = 64;
  const int64_t elements = elements_of(source.operand(0)->dims), updates = int64_t(targets.size());
  std::vector<Ints> rounds;
  import.spend(uint64_t(elements) * 8);
  Ints count(size_t(elements), 0);
  for (size_t u = 0; u < targets.size(); ++u) {
    const auto round = size_t(count[size_t(targets[u])]++);
    if (round >= kMaxRounds) source.refuse("combines more than 64 updates in one place");
    if (round == rounds.size()) {
      import.spend(uint64_t(elements) * 8);
      rounds.emplace_back(size_t(elements), updates);
    }
    rounds[round][size_t(targets[u])] = int64_t(u);
  }
  Formula f(import, source);
  Term y = flat(f, f.input(0));
  const Term all = f("Concat", {flat(f, f.input(2)), f.numbers({1}, {reduction.nothing})}, {{"axis", int64_t{0}}});
  for (const Ints& places : rounds)
    y = f(reduction.op, {y, f("Gather", {all, f.list(places)}, {{"axis", int64_t{0}}})});
  f.give(f.reshape(y, source.operand(0)->dims));
  f.run();
}

void scatter_to(Import& import, const Source& source, const Ints& targets) {
  if (int64_t(targets.size()) != elements_of(source.operand(2)->dims))
    source.malformed("its updates do not fit its indices");
  const std::string reduction = source.text("reduction", "none");
  if (reduction == "none") return put(import, source, 2, targets);
  for (const Reduction& known : kReductions)
    if (reduction == known.name) return combine(import, source, known, targets);
  source.malformed("reduction is " + reduction);
}

bool is_put(const Source& source) { return source.text("reduction", "none") == "none"; }

// Returns whether the updates are few enough to be put one after the other.
bool has_few_updates(const Source& source) {
  const Ints& ids = source.operand(1)->dims;
  return ids[size_t(source.axis(source.integer("axis", 0), int(ids.size())))] <= 64;
}

void scatter_elements(Import& import, const Source& source) {
  if (!source.operand(1)->constant)
    return is_put(source) && has_few_updates(source) ? put_elements_at_run_time(import, source)
                                                     : scatter_elements_at_run_time(import, source);
  const Ints& dims = source.operand(0)->dims;
  const Indices indices = indices_of(import, source, 1);
  const auto axis = size_t(source.axis(source.integer("axis", 0), int(dims.size())));
  if (indices.dims.size() != dims.size()) source.malformed("its indices have another rank than its input");
  const Ints strides = strides_of(dims);
  Ints targets;
  each_index(indices.dims, [&](Ints index) {
    index[axis] = within(source, indices.numbers[targets.size()], dims[axis]);
    for (size_t i = 0; i < dims.size(); ++i)
      if (index[i] >= dims[i]) source.malformed("its indices are larger than its input");
    targets.push_back(place_of(index, strides));
  });
  scatter_to(import, source, targets);
}

void scatter_nd(Import& import, const Source& source) {
  const bool real = source.operand(0)->type == ElementType::kFloat32;
  if (!source.operand(1)->constant)
    return is_put(source) && real ? put_rows_at_run_time(import, source) : scatter_rows_at_run_time(import, source);
  const Rows rows = rows_of(source, source.operand(0)->dims, indices_of(import, source, 1), 0);
  import.spend(rows.first.size() * uint64_t(rows.width) * 8);
  scatter_to(import, source, places_of(rows));
}

// Imports TensorScatter: a cache [b, .., s, ..] gets the rows of `update` from row indices[b] on along `axis`. In
// mode circular they continue at its beginning.
void tensor_scatter(Import& import, const Source& source) {
  if (source.given(2) && !source.operand(2)->constant) return put_in_cache_at_run_time(import, source);
  const Ints &dims = source.operand(0)->dims, &update = source.operand(1)->dims;
  const auto axis = size_t(source.axis(source.integer("axis", -2), int(dims.size())));
  const bool circular = source.text("mode", "linear") == "circular";
  import.spend(uint64_t(dims[0]) * 8);
  const Ints first = source.given(2) ? indices_of(import, source, 2).numbers : Ints(size_t(dims[0]), 0);
  if (update.size() != dims.size() || axis == 0 || int64_t(first.size()) != dims[0])
    source.malformed("its update or its indices do not fit its cache");
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != axis && update[i] != dims[i]) source.malformed("its update does not fit its cache");
  const Ints strides = strides_of(dims);
  Ints targets;
  import.spend(uint64_t(elements_of(update)) * 8);
  each_index(update, [&](Ints index) {
    const int64_t row = index[axis] + within(source, first[size_t(index[0])], dims[axis]);
    if (row >= dims[axis] && !circular) source.malformed("its update goes beyond the end of its cache");
    index[axis] = row % dims[axis];
    targets.push_back(place_of(index, strides));
  });
  put(import, source, 1, targets);
}

// Gives the rows along `axis`, or without an axis the elements, for which the condition is true.
void compress(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const Ints condition = integers(source.constant(1, "its condition"));
  const bool is_flat = !source.has("axis");
  const int64_t axis = is_flat ? 0 : source.axis(source.integer("axis", 0), x->rank());
  const int64_t dim = is_flat ? elements_of(x->dims) : x->dims[size_t(axis)];
  Ints rows;
  for (int64_t i = 0; i < std::min<int64_t>(dim, int64_t(condition.size())); ++i)
    if (condition[size_t(i)] != 0) rows.push_back(i);
  if (rows.empty()) source.refuse("gives a tensor without elements");
  Formula f(import, source);
  const Term in = is_flat ? flat(f, f.input(0)) : f.input(0);
  f.give(f("Gather", {in, f.list(rows)}, {{"axis", axis}}));
  f.run();
}

// Reverses the first lengths[b] rows along the axis of time.
void reverse_sequence(Import& import, const Source& source) {
  const Ints& dims = source.operand(0)->dims;
  const Ints lengths = source.constant_integers(1, "its lengths");
  const auto batch = size_t(source.axis(source.integer("batch_axis", 1), int(dims.size())));
  const auto time = size_t(source.axis(source.integer("time_axis", 0), int(dims.size())));
  if (batch == time || int64_t(lengths.size()) != dims[batch]) source.malformed("its lengths do not fit its batch");
  const Ints strides = strides_of(dims);
  Ints places;
  import.spend(uint64_t(elements_of(dims)) * 8);
  each_index(dims, [&](Ints index) {
    const int64_t length = lengths[size_t(index[batch])];
    if (length < 0 || length > dims[time]) source.malformed("a length is outside its input");
    if (index[time] < length) index[time] = length - 1 - index[time];
    places.push_back(place_of(index, strides));
  });
  give_places(import, source, places, dims);
}

// Imports MaxUnpool: puts x at the flat indices of input 1 in a tensor of zeros, with out = (in - 1) stride + kernel -
// before - after per axis. A larger output_shape adds zeros at the ends.
void max_unpool(Import& import, const Source& source) {
  const Ints &dims = source.operand(0)->dims, kernel = source.integers("kernel_shape");
  const size_t spatial = kernel.size();
  const Ints strides = source.integers("strides", Ints(spatial, 1));
  const Ints pads = source.integers("pads", Ints(2 * spatial, 0));
  if (spatial + 2 != dims.size() || strides.size() != spatial || pads.size() != 2 * spatial)
    source.malformed("kernel, strides and pads do not fit the rank of its input");
  Ints out(dims.begin(), dims.begin() + 2), more(2 * dims.size(), 0);
  for (size_t i = 0; i < spatial; ++i) {
    constexpr int64_t kMost = 1 << 14;
    if (kernel[i] < 1 || kernel[i] > kMost || strides[i] < 1 || strides[i] > kMost || pads[i] < 0 ||
        pads[i + spatial] < 0)
      source.malformed("its window is out of range");
    out.push_back((dims[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + spatial]);
    if (out.back() < 1) source.malformed("its pads are larger than its output");
  }
  Formula f(import, source);
  const int64_t places = checked_elements(source.place, out);
  const Term zeros = f.filled({places}, 0);
  Term y = f("ScatterElements", {zeros, flat(f, f.input(1)), flat(f, f.input(0))}, {{"axis", int64_t{0}}});
  y = f.reshape(y, out);
  if (source.given(2)) {
    const Ints wanted = source.constant_integers(2, "its output shape");
    if (wanted.size() != out.size()) source.malformed("its output shape does not fit its input");
    for (size_t i = 0; i < out.size(); ++i) more[out.size() + i] = wanted[i] - out[i];
    y = f("Pad", {y, f.list(more)});
  }
  f.give(y);
  f.run();
}

constexpr OperatorImporter kPlaceImporters[] = {
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"Compress", compress},
    {"MaxUnpool", max_unpool},
    {"ReverseSequence", reverse_sequence},
};

}  // namespace

std::span<const OperatorImporter> stored_indices_importers() { return kPlaceImporters; }

}  // namespace nacre::tools::onnx_import

// Computes operators on constants that choose, move or make elements. Most of them have the form
//
//   y[i] = x[from(i)], or a fill value
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tools/importers/onnx/evaluator.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

int64_t checked_index(const Evaluation& e, int64_t index, int64_t size) {
  if (index < -size || index >= size)
    e.source.malformed("index " + std::to_string(index) + " is outside an axis of " + std::to_string(size));
  return index < 0 ? index + size : index;
}

// ---- Gather and scatter: element_places and slice_places return the flat indices into x that `index` names.

// Serves GatherElements and ScatterElements: the number at [i0, .., ia, ..] names x[i0, .., number, ..].
Dims element_places(const Evaluation& e, const Tensor& x, const Tensor& index) {
  if (!index.whole || index.rank() != x.rank()) e.source.malformed("its indices do not fit its input");
  if (x.rank() == 0) e.source.malformed("its input has no axes");
  const auto axis = size_t(e.source.axis(e.source.integer("axis", 0), x.rank()));
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (i != axis && index.dims[i] > x.dims[i]) e.source.malformed("its indices have more rows than its input");
  Dims strides = strides_of(x.dims), places = e.places(index.dims);
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  size_t i = 0;
  each_index(index.dims, strides, [&](int64_t flat) {
    places.push_back(flat + stride * checked_index(e, index.integers[i++], x.dims[axis]));
  });
  return places;
}

// Serves GatherND and ScatterND. Along its last axis `index` [batch.., rows.., depth] holds an index into the axes of x
// after the batch. Returns one flat index per element of [batch.., rows.., x.dims[batch + depth ..]], and sets `dims`
// to these sizes.
Dims slice_places(const Evaluation& e, const Tensor& x, const Tensor& index, int64_t batch, Dims& dims) {
  const int64_t depth = index.rank() > 0 ? index.dims.back() : -1;
  if (!index.whole || batch < 0 || depth < 1 || batch >= index.rank() || depth > x.rank() - batch)
    e.source.malformed("its indices do not fit its input");
  for (int64_t i = 0; i < batch; ++i)
    if (x.dims[size_t(i)] != index.dims[size_t(i)]) e.source.malformed("its batch axes differ");
  const auto rest = x.dims.begin() + batch + depth;
  const int64_t inner = product({rest, x.dims.end()}), batches = product({x.dims.begin(), x.dims.begin() + batch});
  dims.assign(index.dims.begin(), index.dims.end() - 1);
  dims.insert(dims.end(), rest, x.dims.end());
  const Dims strides = strides_of(x.dims);
  Dims places = e.places(dims);
  const int64_t rows = int64_t(index.size()) / depth;
  const int64_t per_batch = batches == 0 ? 1 : std::max<int64_t>(rows / batches, 1);
  const int64_t block = batches == 0 ? 0 : int64_t(x.size()) / batches;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t first = row / per_batch * block;
    for (int64_t k = 0; k < depth; ++k)
      first += strides[size_t(batch + k)] *
               checked_index(e, index.integers[size_t(row * depth + k)], x.dims[size_t(batch + k)]);
    for (int64_t i = 0; i < inner; ++i) places.push_back(first + i);
  }
  return places;
}

void gather_elements(const Evaluation& e) {
  e.give(e.taken(e.input(0), e.input(1).dims, element_places(e, e.input(0), e.input(1))));
}

void gather_nd(const Evaluation& e) {
  Dims dims;
  const Dims places = slice_places(e, e.input(0), e.input(1), e.source.integer("batch_dims", 0), dims);
  e.give(e.taken(e.input(0), dims, places));
}

template <class T>
T reduced(const std::string& how, T old, T update) {
  if constexpr (std::is_integral_v<T>) {
    if (how == "add") return T(uint64_t(old) + uint64_t(update));
    if (how == "mul") return T(uint64_t(old) * uint64_t(update));
  } else {
    if (how == "add") return old + update;
    if (how == "mul") return old * update;
  }
  if (how == "min") return std::min(old, update);
  return how == "max" ? std::max(old, update) : update;
}

void scatter(const Evaluation& e, const Dims& places) {
  const Tensor& update = e.input(2);
  Tensor y = e.input(0);
  e.spend(y.size());
  const std::string how = e.source.text("reduction", "none");
  if (update.type != y.type || update.size() != places.size()) e.source.malformed("its updates do not fit its indices");
  if (how != "none" && how != "add" && how != "mul" && how != "min" && how != "max")
    e.source.malformed("reduction is " + how);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto at = size_t(places[i]);
    if (y.whole) y.integers[at] = wrapped(y.type, reduced(how, y.integers[at], update.integers[i]));
    else y.reals[at] = reduced(how, y.reals[at], update.reals[i]);
  }
  e.give(std::move(y));
}

void scatter_elements(const Evaluation& e) {
  if (e.input(1).dims != e.input(2).dims) e.source.malformed("its updates do not fit its indices");
  scatter(e, element_places(e, e.input(0), e.input(1)));
}

void scatter_nd(const Evaluation& e) {
  Dims dims;
  const Dims places = slice_places(e, e.input(0), e.input(1), 0, dims);
  if (dims != e.input(2).dims) e.source.malformed("its updates do not fit its indices");
  scatter(e, places);
}

// ---- Masks and indices

// y[.., i, j] = x[.., i, j] on the diagonal j - i = k and on one side of it, else 0.
void trilu(const Evaluation& e) {
  const Tensor& x = e.input(0);
  if (x.rank() < 2) e.source.malformed("its input has fewer than two axes");
  const int64_t far = std::numeric_limits<int32_t>::max();
  const int64_t k = e.has(1) ? std::clamp(e.number(1, "its diagonal"), -far, far) : 0;
  const bool upper = e.source.integer("upper", 1) != 0;
  const int64_t rows = x.dims[x.dims.size() - 2], columns = x.dims.back();
  Dims places = e.places(x.dims);
  for (int64_t i = 0; i < int64_t(x.size()); ++i) {
    const int64_t distance = i % columns - i / columns % rows;
    places.push_back((upper ? distance >= k : distance <= k) ? i : -1);
  }
  e.give(e.taken(x, x.dims, places));
}

ElementType type_attribute(const Evaluation& e, const char* key, ElementType otherwise) {
  if (!e.source.has(key)) return otherwise;
  const ElementType type = element_type(int(std::clamp<int64_t>(e.source.integer(key, 0), 0, 1000)));
  if (!is_evaluated(type)) e.source.refuse("gives a type that is not supported");
  return type;
}

void eye_like(const Evaluation& e) {
  const Tensor& x = e.input(0);
  if (x.rank() != 2) e.source.malformed("its input has not two axes");
  Tensor y = e.make(type_attribute(e, "dtype", x.type), x.dims);
  const int64_t far = std::numeric_limits<int32_t>::max(), k = std::clamp(e.source.integer("k", 0), -far, far);
  for (int64_t i = 0; i < int64_t(y.size()); ++i) {
    if (i % x.dims[1] - i / x.dims[1] != k) continue;
    if (y.whole) y.integers[size_t(i)] = 1;
    else y.reals[size_t(i)] = 1;
  }
  e.give(std::move(y));
}

// Gives the indices of the elements that are not 0, [rank, count], in the order of the elements.
void non_zero(const Evaluation& e) {
  const Tensor& x = e.input(0);
  Dims found;
  for (size_t i = 0; i < x.size(); ++i)
    if (x.whole ? x.integers[i] != 0 : x.reals[i] != 0) found.push_back(int64_t(i));
  const auto count = int64_t(found.size());
  const Dims strides = strides_of(x.dims);
  Tensor y = e.make(ElementType::kInt64, {std::max(x.rank(), 1), count});
  for (size_t axis = 0; axis < x.dims.size(); ++axis)
    for (size_t i = 0; i < found.size(); ++i)
      y.integers[axis * found.size() + i] = found[i] / strides[axis] % x.dims[axis];
  e.give(std::move(y));
}

// y[.., k, ..] = on if k is the index, else off: values [off, on].
void one_hot(const Evaluation& e) {
  const Tensor &index = e.input(0), &depth = e.input(1), &values = e.input(2);
  if (depth.size() != 1 || values.size() != 2) e.source.malformed("its depth or its values do not fit");
  const double wanted = depth.whole ? double(depth.integers[0]) : depth.reals[0];
  if (!(wanted >= 1 && wanted < 0x1p31)) e.source.malformed("its depth is not positive");
  const auto size = int64_t(wanted);
  const int axis = e.source.axis(e.source.integer("axis", -1), index.rank() + 1);
  Dims dims = index.dims;
  dims.insert(dims.begin() + axis, size);
  const int64_t inner = product({index.dims.begin() + axis, index.dims.end()});
  Dims from = e.places(dims);
  for (int64_t i = 0, count = product(dims); i < count; ++i) {
    const auto at = size_t(i / (inner * size) * inner + i % inner);
    const double given = index.whole ? double(index.integers[at]) : std::trunc(index.reals[at]);
    from.push_back(double(i / inner % size) == (given < 0 ? given + double(size) : given) ? 1 : 0);
  }
  e.give(e.taken(values, dims, from));
}

// Gives start, start + delta, .. before limit.
void evaluate_range(const Evaluation& e) {
  const Tensor &start = e.input(0), &limit = e.input(1), &delta = e.input(2);
  for (int i = 0; i < 3; ++i)
    if (e.input(i).size() != 1 || e.input(i).type != start.type)
      e.source.malformed("its operands are not single numbers");
  const auto real = [](const Tensor& x) { return x.whole ? double(x.integers[0]) : x.reals[0]; };
  if (real(delta) == 0) e.source.malformed("its step is 0");
  const double steps = std::ceil((real(limit) - real(start)) / real(delta));
  if (!(steps < 0x1p31)) e.source.refuse("is too long");
  Tensor y = e.make(start.type, {int64_t(std::max(0.0, steps))});
  for (size_t i = 0; i < y.size(); ++i) {
    if (y.whole) y.integers[i] = int64_t(uint64_t(start.integers[0]) + i * uint64_t(delta.integers[0]));
    else y.reals[i] = start.reals[0] + double(i) * delta.reals[0];
  }
  e.give(std::move(y));
}

// ---- Pad, Compress, Unique

// Returns the index in [0, size) that stands at position i of a padded axis, or -1 for the fill value.
int64_t padded_index(const std::string& mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == "constant" || size == 0) return -1;
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap") return ((i % size) + size) % size;
  const int64_t period = std::max<int64_t>(2 * (size - 1), 1), at = ((i % period) + period) % period;  // reflect
  return std::min(at < size ? at : period - at, size - 1);
}

void evaluate_pad(const Evaluation& e) {
  const Tensor& x = e.input(0);
  const std::string mode = e.source.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "wrap" && mode != "reflect")
    e.source.malformed("mode is " + mode);
  const Dims pads = e.source.has("pads") ? e.source.integers("pads") : e.list(1, "its pads");
  Dims axes = e.has(3) ? e.list(3, "its axes") : Dims();
  for (int i = 0; !e.has(3) && i < x.rank(); ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size()) e.source.malformed("its pads do not fit its axes");
  Dims before(x.dims.size(), 0), dims = x.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(e.source.axis(axes[i], x.rank()));
    for (const int64_t p : {pads[i], pads[i + axes.size()]})
      if (p < -x.dims[axis] || p > (1 << 28)) e.source.malformed("a pad is out of range");
    before[axis] = pads[i];
    dims[axis] = std::max<int64_t>(x.dims[axis] + pads[i] + pads[i + axes.size()], 0);
  }
  Dims from = e.places(dims);
  const Dims strides = strides_of(dims), own = strides_of(x.dims);
  for (int64_t i = 0, count = checked_elements(e.source.place, dims); i < count; ++i) {
    int64_t place = 0;
    for (size_t axis = 0; axis < dims.size() && place >= 0; ++axis) {
      const int64_t at = padded_index(mode, i / strides[axis] % dims[axis] - before[axis], x.dims[axis]);
      place = at < 0 ? -1 : place + at * own[axis];
    }
    from.push_back(place);
  }
  Tensor y = e.taken(x, dims, from);
  const bool given = e.has(2) && e.input(2).size() == 1 && e.input(2).type == x.type;
  if (e.has(2) && !given) e.source.malformed("its value is not one number of its input's type");
  const double real = given ? (x.whole ? 0 : e.input(2).reals[0]) : double(e.source.real("value", 0));
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= 0) continue;
    if (x.whole) y.integers[i] = given ? e.input(2).integers[0] : 0;
    else y.reals[i] = real;
  }
  e.give(std::move(y));
}

// The slices of x along the attribute `axis`. Without that attribute each element of x is a slice.
struct Slices {
  explicit Slices(const Evaluation& e)
      : x(e.input(0)), own(e.source.has("axis") ? x.dims : Dims{int64_t(x.size())}),
        axis(e.source.has("axis") ? size_t(e.source.axis(e.source.integer("axis", 0), x.rank())) : 0),
        inner(product({own.begin() + ptrdiff_t(axis) + 1, own.end()})) {}

  int64_t count() const { return own[axis]; }
  int64_t part_count() const { return count() == 0 ? 0 : int64_t(x.size()) / count(); }  // number of elements in a part
  int64_t place(int64_t slice, int64_t part) const { return (part / inner * count() + slice) * inner + part % inner; }

  Tensor kept(const Evaluation& e, const Dims& slices) const {
    Dims dims = own;
    dims[axis] = int64_t(slices.size());
    Dims from = e.places(dims);
    for (int64_t outer = 0; outer < part_count(); outer += inner)
      for (const int64_t slice : slices)
        for (int64_t i = 0; i < inner; ++i) from.push_back(place(slice, outer + i));
    return e.taken(x, dims, from);
  }

  const Tensor& x;
  const Dims own;
  const size_t axis;
  const int64_t inner;
};

// Gives the slices for which the condition holds.
void compress(const Evaluation& e) {
  const Tensor& condition = e.input(1);
  if (!condition.whole || condition.rank() != 1) e.source.malformed("its condition is no list of bools");
  const Slices slices(e);
  Dims kept;
  for (size_t i = 0; i < condition.size() && int64_t(i) < slices.count(); ++i)
    if (condition.integers[i] != 0) kept.push_back(int64_t(i));
  e.give(slices.kept(e, kept));
}

// Gives each distinct slice once, in lexicographic order or in the order of the input. Outputs 1 and 3 hold its first
// index and its count. Output 2 holds for each slice of x its index among the distinct slices.
void unique(const Evaluation& e) {
  const Slices slices(e);
  const int64_t parts = slices.part_count();
  const auto before = [&](int64_t a, int64_t b) {
    return slices.x.visit([&](const auto& numbers) {
      for (int64_t part = 0; part < parts; ++part) {
        const auto u = numbers[size_t(slices.place(a, part))], v = numbers[size_t(slices.place(b, part))];
        if (u != v) return u < v;
      }
      return false;
    });
  };
  e.spend(slices.x.size() * 32);  // bounds the time of the comparisons
  std::map<int64_t, Dims, decltype(before)> found(before);
  for (int64_t i = 0; i < slices.count(); ++i) found[i].push_back(i);
  std::vector<const Dims*> order;
  for (const auto& [first, equal] : found) order.push_back(&equal);
  const auto earlier = [](const Dims* a, const Dims* b) { return a->front() < b->front(); };
  if (e.source.integer("sorted", 1) == 0) std::ranges::sort(order, earlier);
  Dims first;
  for (const Dims* equal : order) first.push_back(equal->front());
  const auto list = [&](size_t size) { return e.make(ElementType::kInt64, {int64_t(size)}); };
  Tensor places = list(order.size()), inverse = list(size_t(slices.count())), counts = list(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    places.integers[k] = first[k];
    counts.integers[k] = int64_t(order[k]->size());
    for (const int64_t i : *order[k]) inverse.integers[size_t(i)] = int64_t(k);
  }
  e.give(slices.kept(e, first));
  e.give(std::move(places), 1);
  e.give(std::move(inverse), 2);
  e.give(std::move(counts), 3);
}

constexpr Evaluator kMoveEvaluators[] = {
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"ScatterElements", scatter_elements},
    {"Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Trilu", trilu},
    {"EyeLike", eye_like},
    {"NonZero", non_zero},
    {"OneHot", one_hot},
    {"Range", evaluate_range},
    {"Pad", evaluate_pad},
    {"Compress", compress},
    {"Unique", unique},
};

}  // namespace

std::span<const Evaluator> move_evaluators() { return kMoveEvaluators; }

}  // namespace nacre::tools::onnx_import

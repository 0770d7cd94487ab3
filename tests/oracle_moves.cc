// The oracle of the ops that move elements.
#include "engine/ops/move.h"
#include "tests/oracle_problem.h"

namespace nacre::test {
namespace {

// The element that an output copies: `index` of input `which`, or, with `outside`, none.
struct Source {
  size_t which = 0;
  Index index;
  bool outside = false;
};
template <class F>
Expected moved(const Problem& p, const Index& dims, double outside, F source) {
  return expect(dims, [&](const Index& index) -> Result {
    const Source from = source(index);
    return {from.outside ? outside : p.in[from.which].real(offset(p.in[from.which].dims, from.index)), 0};
  });
}

}  // namespace

std::vector<Expected> reshape(const Problem& p) {
  Index dims;
  for (int i = 0; i < p.word(0); ++i) dims.push_back(p.word(1 + i));
  if (p.entry.op == Op::kCopy || p.entry.op == Op::kPack || p.entry.op == Op::kStore) dims = p.in[0].dims;
  return {moved(p, dims, 0,
                [&](const Index& index) { return Source{0, index_of(p.in[0].dims, offset(dims, index)), false}; })};
}

std::vector<Expected> transpose(const Problem& p) {
  Index dims;
  for (size_t i = 0; i < p.in[0].dims.size(); ++i) dims.push_back(p.in[0].dims[size_t(p.word(int(i)))]);
  return {moved(p, dims, 0, [&](const Index& index) {
    Index from(index.size());
    for (size_t i = 0; i < index.size(); ++i) from[size_t(p.word(int(i)))] = index[i];
    return Source{0, from, false};
  })};
}

std::vector<Expected> concat(const Problem& p) {
  const auto axis = size_t(p.word(0));
  Index dims = p.in[0].dims;
  dims[axis] = 0;
  for (const Array& x : p.in) dims[axis] += x.dims[axis];
  return {moved(p, dims, 0, [&](Index index) {
    size_t which = 0;
    for (; index[axis] >= p.in[which].dims[axis]; ++which) index[axis] -= p.in[which].dims[axis];
    return Source{which, index, false};
  })};
}

std::vector<Expected> pad(const Problem& p) {
  const Index& x = p.in[0].dims;
  Index dims;
  for (size_t i = 0; i < x.size(); ++i) dims.push_back(x[i] + p.word(int(i)) + p.word(Pad::kAfter + int(i)));
  const ElementType type = p.in[0].element;
  const bool real = type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
                    type == ElementType::kFloat64;
  const double outside = real ? round_to(type, p.real_word(Pad::kValue)) : double(p.word(Pad::kValue));
  return {moved(p, dims, outside, [&](Index index) {
    bool inside = true;
    for (size_t i = 0; i < x.size(); ++i) {
      index[i] -= p.word(int(i));
      inside &= index[i] >= 0 && index[i] < x[i];
      if (p.word(Pad::kMode) == 2) index[i] = std::clamp(index[i], 0, x[i] - 1);
      const int period = std::max(1, 2 * x[i] - 2);  // a mirrored signal repeats: 0 1 2 1 | 0 1 2 1
      const int phase = (index[i] % period + period) % period;
      if (p.word(Pad::kMode) == 1) index[i] = std::min(phase, period - phase) % std::max(x[i], 1);
    }
    return Source{0, index, p.word(Pad::kMode) == 0 && !inside};
  })};
}

std::vector<Expected> slice(const Problem& p) {
  Index dims;
  for (size_t i = 0; i < p.in[0].dims.size(); ++i) dims.push_back(p.word(Slice::kSize + int(i)));
  return {moved(p, dims, 0, [&](Index index) {
    for (size_t i = 0; i < index.size(); ++i)
      index[i] = p.word(int(i)) + index[i] * (p.word(Slice::kStep + int(i)) + 1);
    return Source{0, index, false};
  })};
}

}  // namespace nacre::test

#include "tests/claims/kernels_correct_bounds.h"

#include <cfloat>
#include <cmath>

#include "tests/op_rows.h"

namespace nacre::test {
namespace {

// Returns the expected numbers of `list`, stored in the type of `like`.
Expected stored_as(const Array& like, const List& list) {
  Expected expected = {like.dims, {}, {}};
  const Format format = format_of(like.element);
  for (const Bounded& b : list) {
    const bool narrow = like.element != ElementType::kFloat32;
    const Real error = b.error + (narrow ? quantum(like.element, std::abs(b.v) + b.error) / 2 : 0) + FLT_MIN;
    const double rounded = round_to(like.element, b.v);  // infinite if beyond the format
    const bool number = std::isfinite(rounded) && std::abs(b.v) <= format.largest;
    expected.value.push_back(number ? double(b.v) : rounded);
    expected.tolerance.push_back(number ? double(error) : 0);
  }
  return expected;
}

}  // namespace

bool has_bounds(Op op) {
  const OpRow* const row = find_op_row(op);
  return row != nullptr && row->bounds != nullptr;
}

BoundedResults bounded_results(const KernelEntry& entry, const std::vector<uint32_t>& words,
                               const std::vector<Array>& inputs, const Execution& like) {
  BoundedResults results;
  const Index none;
  const Lists lists =
      find_op_row(entry.op)->bounds({entry, words, inputs}, like.outputs.empty() ? none : like.outputs[0].dims);
  for (size_t i = 0; i < like.outputs.size(); ++i) results.outputs.push_back(stored_as(like.outputs[i], lists[i]));
  for (size_t i = 0; i < like.updated.size(); ++i)
    results.updated.push_back(stored_as(like.updated[i], lists[like.outputs.size() + i]));
  return results;
}

}  // namespace nacre::test

#include "tools/calibration/static_groups.h"

#include <algorithm>

namespace nacre::tools {

bool same_codes(const Quantizer& a, const Quantizer& b) {
  return a.codes == b.codes && a.scale == b.scale && a.zero == b.zero;
}

ValueId StaticGroups::root(ValueId id) {
  while (parent_[size_t(id)] != id) id = parent_[size_t(id)] = parent_[size_t(parent_[size_t(id)])];
  return id;
}

bool StaticGroups::merge(ValueId x, ValueId y) {
  const ValueId a = root(x), b = root(y);
  if (a == b) return true;
  const std::optional<Quantizer> fa = fixed_[size_t(a)], fb = fixed_[size_t(b)];
  if (fa && fb && !same_codes(*fa, *fb)) return false;
  parent_[size_t(b)] = a;
  if (fb) fixed_[size_t(a)] = fb;
  if (range_[size_t(b)]) include(a, *range_[size_t(b)]);
  return true;
}

void StaticGroups::include(ValueId id, Range range) {
  std::optional<Range>& all = range_[size_t(root(id))];
  all = all ? Range{std::min(all->low, range.low), std::max(all->high, range.high)} : range;
}

}  // namespace nacre::tools

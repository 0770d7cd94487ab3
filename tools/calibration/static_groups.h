// StaticGroups joins values that share one quantizer, because an op between them moves codes unchanged. Private to
// quantize_static.
#pragma once

#include <numeric>
#include <optional>
#include <vector>

#include "tools/calibration/statistics.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

class StaticGroups {
 public:
  explicit StaticGroups(size_t values) : parent_(values), fixed_(values), range_(values) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  void fix(ValueId id, const Quantizer& quantizer) { fixed_[size_t(root(id))] = quantizer; }
  const std::optional<Quantizer>& fixed(ValueId id) { return fixed_[size_t(root(id))]; }

  // Merges the groups of x and y. Returns false and changes nothing if both have fixed quantizers that differ.
  bool merge(ValueId x, ValueId y);

  // Widens the range of the value's group to hold `range`, because the shared codes must cover all its values.
  void include(ValueId id, Range range);
  const std::optional<Range>& range(ValueId id) { return range_[size_t(root(id))]; }

  ValueId root(ValueId id);  // a member that stands for the group, equal for all its values

 private:
  std::vector<ValueId> parent_;
  std::vector<std::optional<Quantizer>> fixed_;
  std::vector<std::optional<Range>> range_;
};

bool same_codes(const Quantizer& a, const Quantizer& b);

}  // namespace nacre::tools

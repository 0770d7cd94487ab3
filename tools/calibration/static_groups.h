// Values that share one quantizer, because an op between them moves codes as they are. Private to quantize_static.
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

  // False, and nothing changes, if both have quantizers and other ones.
  bool merge(ValueId x, ValueId y);

  // The group's range is that of all its members that bring one: codes of one input of a concat must hold the others.
  void include(ValueId id, Range range);
  const std::optional<Range>& range(ValueId id) { return range_[size_t(root(id))]; }

  ValueId root(ValueId id);  // the same for all of a group

 private:
  std::vector<ValueId> parent_;
  std::vector<std::optional<Quantizer>> fixed_;
  std::vector<std::optional<Range>> range_;
};

bool same_codes(const Quantizer& a, const Quantizer& b);

}  // namespace nacre::tools

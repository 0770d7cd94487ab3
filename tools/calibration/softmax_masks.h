// SoftmaxMasks finds the masks of a softmax. A mask is added to the scores, or chosen in place of a score: -inf, -1e9,
// the lowest float. A masked score counts for nothing, so the ranges of codes leave masks out. Let r be the
// largest score of a row, n the number of scores in a row, and beta the softmax's factor. All scores of a row below
//
//   B = min over rows of r - ln(512 n) / beta
//
// add at most 1/512 to its probabilities together, half a code of the int8 output (1/256). So the codes of masked
// scores begin at B, and lower scores saturate there. If y = a + b are such scores, the codes of a begin at B - max b,
// and those of b at B - max a. If y = c a, the codes of a begin at B / c.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/calibration/statistics.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Limits of codes. A softmax cannot use numbers of the named value below `low`, or above `high`.
struct MaskLimits {
  std::map<std::string, float> low, high;  // limits of activations, by name
  // limits of constant operands; the key is the name of the node's output and the operand's slot
  std::map<std::pair<std::string, int>, Range> operands;

  bool empty() const { return low.empty() && high.empty() && operands.empty(); }
};

// Returns ln(512 n), n = `width` scores a row.
double mask_depth(double width);

class SoftmaxMasks {
 public:
  explicit SoftmaxMasks(const Graph& graph);

  // Returns whether -inf is accepted in this value: it is a mask, or it reaches a softmax through moves, sums, choices
  // and factors.
  bool may_be_infinite(ValueId id) const { return region_.contains(id) || only_masks(id); }
  // Returns whether the value is a mask, or a part of one, that in the end only softmaxes read. Such a value stays
  // real.
  bool only_masks(ValueId id) const;

  // Returns whether the value is scores that a mask was added to or chosen in. The graph decides this, not samples.
  bool holds_mask(ValueId id) const;

  // Takes the rows of one sample of a softmax's input. Does nothing if `id` is not such an input.
  void add_rows(ValueId id, std::span<const float> x);
  // Sets the lowest number of a softmax's input that needs a code, known from training. limits() uses it, not the rows.
  void set_lowest(ValueId id, float low) { lowest_[id] = low; }
  bool is_scores(ValueId id) const { return softmax_of_.contains(id); }

  // Returns the limits. `ranges` holds the range of the finite elements of every activation; low is -inf if one was
  // -inf.
  MaskLimits limits(const std::map<ValueId, Range>& ranges) const;

 private:
  struct Use {  // one operand of a node
    size_t node;
    int slot;
    auto operator<=>(const Use&) const = default;
  };
  struct Peaks {
    float lowest = 0, highest = 0;
    bool any = false;
  };
  struct Walk;

  void explore(ValueId id, int left);
  void enter(size_t node, int slot, int left);
  enum Mask { kAdded, kSubtracted };
  bool makes_mask(ValueId id, Mask mask, int left) const;
  bool holds_mask(ValueId id, int left) const;
  bool masked(Walk& walk, ValueId id, Use use, float low, int left) const;
  bool masked_above(Walk& walk, ValueId id, Use use, float high) const;
  Range finite(const Walk& walk, ValueId id) const;
  bool read_elsewhere(ValueId id, const std::set<Use>& uses) const;

  const Graph& graph_;
  std::vector<int> writer_;
  std::vector<std::vector<Use>> readers_;
  std::map<ValueId, size_t> softmax_of_;  // the softmax that reads a value as its input, by the value
  std::set<ValueId> region_;              // values that reach a softmax through moves, sums, choices, factors
  std::set<Use> uses_;                    // operands on the way to softmaxes
  std::map<ValueId, Peaks> peaks_;
  std::map<ValueId, float> lowest_;
};

}  // namespace nacre::tools

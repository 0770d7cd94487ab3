// Masks that are added to the scores of a softmax, or chosen in their place: -inf, -1e9, the lowest float. They say
// only that a score counts for nothing, so they take no part in the ranges of codes. With the row's largest score r and
// n scores a row, what lies below
//
//   B = min over rows of r - ln(512 n)
//
// adds at most 1/512 in all to a row of probabilities, half a code of the int8 output (1/256). So the codes of masked
// scores begin at B, and what is below saturates there. Behind y = a + b the codes of a begin at B - max b, those of b
// at B - max a; behind y = c a at B / c.
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

// From where on codes are for: below `low`, or above `high`, there is nothing that a softmax can use.
struct MaskLimits {
  std::map<std::string, float> low, high;  // of activations, by name
  // of constant operands, by the name of the value that is computed with them and their slot
  std::map<std::pair<std::string, int>, Range> operands;

  bool empty() const { return low.empty() && high.empty() && operands.empty(); }
};

// ln(512 n) of n scores a row.
double mask_depth(double width);

class SoftmaxMasks {
 public:
  explicit SoftmaxMasks(const Graph& graph);

  // Whether -inf may stand in this value: a mask, or scores that a mask was added to.
  bool may_be_infinite(ValueId id) const { return region_.contains(id) || only_masks(id); }
  // A value that a mask is made of, and which nothing but softmaxes read in the end: it stays real.
  bool only_masks(ValueId id) const;

  // Scores that a mask was added to or chosen in, as the graph says it, without data.
  bool holds_mask(ValueId id) const;

  // The rows of a softmax's input, of one sample; nothing where `id` is none.
  void add_rows(ValueId id, std::span<const float> x);
  // Sets where the numbers of a softmax's input begin, known from training; replaces add_rows().
  void set_lowest(ValueId id, float low) { lowest_[id] = low; }
  bool is_scores(ValueId id) const { return softmax_of_.contains(id); }

  // `ranges`: of the finite elements of every activation; -inf as a low where there was one.
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
  std::map<ValueId, size_t> softmax_of_;  // by its input
  std::set<ValueId> region_;              // between masks and softmaxes
  std::set<Use> uses_;                    // operands on the way from masks to softmaxes
  std::map<ValueId, Peaks> peaks_;
  std::map<ValueId, float> lowest_;
};

}  // namespace nacre::tools

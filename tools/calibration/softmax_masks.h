// Masks that are added to the scores of a softmax, or chosen in their place: -inf, -1e9, the lowest float. A mask only
// says that a score counts for nothing, so masks take no part in the ranges of codes. Let r be the largest score of a
// row, n the number of scores in a row, and beta the softmax's factor. All scores of a row below
//
//   B = min over rows of r - ln(512 n) / beta
//
// add at most 1/512 to its probabilities together, half a code of the int8 output (1/256). So the codes of masked
// scores begin at B, and lower scores saturate there. If such scores are y = a + b, a's codes begin at B - max b and
// b's codes at B - max a. If they are y = c a, a's codes begin at B / c.
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

// Suppresses boxes that overlap a box of greater score, greedily (ONNX NonMaxSuppression; TFLite
// NON_MAX_SUPPRESSION_V4 and _V5). It has no gradient.
//
//   boxes [batch, n, 4]: two opposite corners, (y, x, y, x) or (x, y, x, y)       scores [batch, classes, n]
//   places [batch classes most], int32     kept [batch classes most]     count [1], int32
//
// In each of the batch * classes lists of n scores, at most `most` times, the remaining box i of greatest score is
// selected; of equals the first. Then each other box j is removed if its overlap is above the bound, or with `closed`
// equal to it:
//
//   o = |i j| / (|i| + |j| - |i j|),  |.| an area, i j the intersection; 0 if one of the boxes has no area
//
// If sigma > 0, the boxes that remain lose score (N. Bodla et al., "Soft-NMS", ICCV 2017, equation 2):
//
//   s_j <- s_j exp(-o^2 / (2 sigma))
//
// A score at or below `least` (with `at_least`: below `least`) takes no part, nor does -infinity or NaN. The selected
// boxes stand list after list without gaps: places holds list n + i, kept the score by which the box was selected,
// count their number. The rest of places is `empty`, of kept 0.
#pragma once

#include <cmath>
#include <limits>

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct NonMaxSuppression {
  int batch, classes, n, most;
  float overlap, least, sigma;
  bool closed, at_least;
  int32_t empty;

  enum Operand { kBoxes, kScores };
  enum Word { kMost, kOverlap, kLeast, kSigma, kClosed, kAtLeast, kEmpty };
  static constexpr int kCorners = 4;

  static constexpr NonMaxSuppression from(const Words& words, const Operands& operands) {
    const Shape scores = operands[kScores];
    return {.batch = scores[0],
            .classes = scores[1],
            .n = scores[2],
            .most = words.integer(kMost),
            .overlap = words.real(kOverlap),
            .least = words.real(kLeast),
            .sigma = words.real(kSigma),
            .closed = words[kClosed] != 0,
            .at_least = words[kAtLeast] != 0,
            .empty = words.integer(kEmpty)};
  }

  // `left` holds the scores of one list; -infinity for boxes that are removed or take no part.
  template <class T>
  constexpr void forward(const T* box, const T* score, int32_t* place, T* kept, int32_t* count, Scratch<T> left) const {
    if (!in_order()) return;
    int selected = 0;
    for (int list = 0; list < batch * classes; ++list) {
      const T* const boxes = box + list / classes * n * kCorners;
      const T* const scores = score + list * n;
      for (int j = 0; j < n; ++j) left.data[j] = has_part(scores[j]) ? scores[j] : -kInfinity<T>;
      for (int turn = 0; turn < most; ++turn) {
        const int i = greatest(left.data);
        if (left.data[i] == -kInfinity<T>) break;
        place[selected] = list * n + i;
        kept[selected++] = left.data[i];
        suppress(boxes, i, left.data);
      }
    }
    *count = selected;
    for (int row = selected; row < batch * classes * most; ++row) place[row] = empty, kept[row] = 0;
  }

  static constexpr size_t scratch_bytes(const Words&, const Operands& operands) {
    const size_t size = operands.element(kBoxes) == ElementType::kFloat64 ? sizeof(double) : sizeof(float);
    return size_t(operands[kScores][2]) * size;
  }

  constexpr uint64_t work() const {
    const uint64_t turns = uint64_t(batch) * uint64_t(classes) * uint64_t(most);
    constexpr uint64_t kCap = uint64_t{1} << 62;
    return turns > kCap / uint64_t(n) ? kCap : turns * uint64_t(n);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    const Shape boxes = operands[kBoxes], scores = operands[kScores];
    if (boxes.rank != 3 || scores.rank != 3) return Code::kShapeRank;
    if (boxes.rows > 0 || scores.rows > 0) return Code::kRowsUnsupported;
    if (boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != kCorners) return Code::kShapeInput;
    const uint32_t most = words[kMost];
    if (most == 0 || most > uint32_t(INT32_MAX) || words[kClosed] > 1 || words[kAtLeast] > 1) return Code::kAttribute;
    for (const int i : {int(kOverlap), int(kLeast), int(kSigma)})
      if (words.real(i) != words.real(i)) return Code::kAttribute;
    const int64_t lists = int64_t{scores[0]} * scores[1];
    if (lists > INT32_MAX / most || lists * scores[2] > INT32_MAX || lists * kCorners > INT32_MAX / scores[2])
      return Code::kElements;
    for (int y = 0; y < 2; ++y) outputs[y].push(int32_t(lists * most));
    outputs[2].push(1);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"most"},
                                              {"overlap", Coding::kReal},
                                              {"least", Coding::kReal},
                                              {"sigma", Coding::kReal},
                                              {"closed"},
                                              {"at_least"},
                                              {"empty"}};
  static constexpr const char* kInputs[] = {"boxes", "scores"};
  static constexpr const char* kOutputs[] = {"places", "kept", "count"};

 private:
  template <class T>
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();

  template <class T>
  constexpr bool has_part(T score) const {
    return at_least ? score >= T(least) : score > T(least);
  }

  template <class T>
  constexpr int greatest(const T* left) const {
    int best = 0;
    for (int j = 1; j < n; ++j)
      if (left[j] > left[best]) best = j;
    return best;
  }

  template <class T>
  constexpr void suppress(const T* boxes, int i, T* left) const {
    left[i] = -kInfinity<T>;
    for (int j = 0; j < n; ++j) {
      if (left[j] == -kInfinity<T>) continue;
      const T o = overlap_of(boxes + i * kCorners, boxes + j * kCorners);
      if (closed ? o >= T(overlap) : o > T(overlap)) left[j] = -kInfinity<T>;
      else if (sigma > 0) left[j] = lowered(left[j], o);
    }
  }

  template <class T>
  constexpr T lowered(T score, T o) const {
    const T s = score * std::exp(T(-0.5) / T(sigma) * o * o);
    return has_part(s) ? s : -kInfinity<T>;
  }

  template <class T>
  struct Box {
    T low[2], high[2];
    constexpr explicit Box(const T* corners) : low{}, high{} {
      for (int axis = 0; axis < 2; ++axis) {
        const T a = corners[axis], b = corners[axis + 2];
        low[axis] = a < b ? a : b, high[axis] = a < b ? b : a;
      }
    }
    constexpr T area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
  };

  template <class T>
  static constexpr T overlap_of(const T* a, const T* b) {
    const Box<T> i(a), j(b);
    const T of_i = i.area(), of_j = j.area();
    if (!(of_i > 0) || !(of_j > 0)) return 0;
    T both = 1;
    for (int axis = 0; axis < 2; ++axis) {
      const T low = i.low[axis] > j.low[axis] ? i.low[axis] : j.low[axis];
      const T high = i.high[axis] < j.high[axis] ? i.high[axis] : j.high[axis];
      both *= high > low ? high - low : T(0);
    }
    return both / (of_i + of_j - both);
  }
};

inline constexpr OpRule kNonMaxSuppressionRule = {.op = Op::kNonMaxSuppression,
                                                  .name = "non_max_suppression",
                                                  .numerics = Numerics::kReduction,
                                                  .shapes = &NonMaxSuppression::shapes,
                                                  .attributes = NonMaxSuppression::kAttributes,
                                                  .inputs = NonMaxSuppression::kInputs,
                                                  .outputs = NonMaxSuppression::kOutputs};

}  // namespace nacre::inline NACRE_ISA

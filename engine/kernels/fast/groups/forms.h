// Kernel forms of conv2d whose groups are not whole vectors of channels, in plain C++. The code is in run.h.
//
// A vector of output channels holds several groups, or ends within one. Each channel needs numbers of x from its own
// group. For some rows of x these numbers are first copied side by side:
//
//   e[pixel][c][l] = x[pixel][group of channel l, c]        y_l = sum over the taps of the window and c of e w
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/matmul/forms.h"

namespace nacre::inline NACRE_ISA {

// Rows of e, with padding, that some rows of y need.
struct GroupBand {
  int columns, out_rows;

  // The most bytes of e for more than one row of y. With bands of few rows most of e would be made twice or more.
  static constexpr int kBytes = 512 << 10;

  static int rows(const Conv2d& op, int out_rows) {
    return (out_rows - 1) * op.window.h.stride + (op.window.h.kernel - 1) * op.window.h.dilation + 1;
  }
  static GroupBand from(const Conv2d& op, int lanes) {
    const WindowAxis& w = op.window.w;
    GroupBand band = {(w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1, op.window.h.out};
    while (band.out_rows > 1 && band.floats(op, lanes) * sizeof(float) > size_t(kBytes))
      band.out_rows = (band.out_rows + 1) / 2;
    return band;
  }
  size_t floats(const Conv2d& op, int lanes) const {
    return size_t(rows(op, out_rows)) * size_t(columns) * size_t(op.group_in) * size_t(lanes);
  }
};

template <int kLanes>
struct Groups {
  Conv2d op;

  static Groups from(const Words& words, const Operands& operands) { return {Conv2d::from(words, operands)}; }
  uint64_t work() const { return op.work(); }
  int length() const { return op.window.h.kernel * op.window.w.kernel * op.group_in; }

  static bool accepts(const Words& words, const Operands& operands) {
    const Conv2d op = from(words, operands).op;
    return op.in_c != op.group_in && op.group_out % kLanes != 0;
  }
  // Returns the bytes of {x in float32 unless it is float32 already; weights of a vector of channels, in rows and
  // packed; e; sums of a row of y}.
  template <class X>
  static size_t bytes(const Words& words, const Operands& operands) {
    const Groups groups = from(words, operands);
    const size_t weights = size_t(groups.length()) * kLanes;
    size_t floats = 2 * weights + GroupBand::from(groups.op, kLanes).floats(groups.op, kLanes);
    floats += size_t(groups.op.window.w.out) * kLanes + kLanes + 5 * 16;
    if (!std::is_same_v<X, float>) floats += size_t(operands[Conv2d::kX].elements());
    return floats * sizeof(float);
  }
};

// float: x, w, b and y of one type T
template <int kLanes, class T>
struct GroupsForm : Groups<kLanes> {
  using Base = Groups<kLanes>;
  static GroupsForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }
  void run(const T* x, const T* w, Optional<const T> b, T* y, const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template bytes<T>(words, operands);
  }
};
template <int kLanes, class T>
struct FusedGroupsForm : Groups<kLanes> {
  using Base = Groups<kLanes>;
  static FusedGroupsForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }
  void run(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y, const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template bytes<T>(words, operands);
  }
};

// int8: sums of (x - zero_x) w in float32, which are exact for windows of at most kMostTerms numbers.
template <int kLanes, Rounding kRounding>
struct CodeGroupsForm : Groups<kLanes> {
  using Base = Groups<kLanes>;
  static constexpr int kMostTerms = (1 << 24) / (255 * 128);
  static CodeGroupsForm from(const Words& words, const Operands& operands) { return {{Base::from(words, operands)}}; }
  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
           const typename Requant<kRounding>::Stored* scale, int8_t* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) {
    return Base::accepts(words, operands) && Base::from(words, operands).length() <= kMostTerms;
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return Base::template bytes<int8_t>(words, operands);
  }
};

namespace fast::groups {

template <class Tier>
constexpr auto lines() {
  constexpr int kLanes = Tier::kLanes;
  return line<GroupsForm<kLanes, float>>("Conv2dGroupsF32", Op::kConv2d, Conv2d::shapes) +
         line<FusedGroupsForm<kLanes, float>>("Conv2dGroupsFusedF32", Op::kConv2d, Conv2d::shapes_fused, 8) +
         line<GroupsForm<kLanes, Float16>>("Conv2dGroupsF16", Op::kConv2d, Conv2d::shapes) +
         line<FusedGroupsForm<kLanes, Float16>>("Conv2dGroupsFusedF16", Op::kConv2d, Conv2d::shapes_fused, 8) +
         line<GroupsForm<kLanes, Bfloat16>>("Conv2dGroupsBf16", Op::kConv2d, Conv2d::shapes) +
         line<FusedGroupsForm<kLanes, Bfloat16>>("Conv2dGroupsFusedBf16", Op::kConv2d, Conv2d::shapes_fused, 8) +
         line<CodeGroupsForm<kLanes, Rounding::kDouble>>("Conv2dGroupsI8Double", Op::kConv2d, Conv2d::shapes, 0,
                                                         Rounding::kDouble) +
         line<CodeGroupsForm<kLanes, Rounding::kSingle>>("Conv2dGroupsI8Single", Op::kConv2d, Conv2d::shapes, 0,
                                                         Rounding::kSingle) +
         line<CodeGroupsForm<kLanes, Rounding::kFloatEven>>("Conv2dGroupsI8FloatEven", Op::kConv2d, Conv2d::shapes, 0,
                                                            Rounding::kFloatEven);
}

}  // namespace fast::groups

}  // namespace nacre::inline NACRE_ISA

// The operators that XNNPACK takes, one struct for each kind of op. Such a struct, a form, has four static functions:
//
//   accepts(words, operands)               returns whether XNNPACK has such an operator; sees no data, like
//                                          KernelEntry::accepts
//   exact(words, operands)                 returns whether the constants' values allow equal results
//   create(words, operands, made)          makes the operator, with the constants packed into it
//   place(op, words, operands, allocate)   sets its sizes and pointers, for operands.rows rows
//
// Kernels of XNNPACK read up to Port::tail_bytes past their inputs, so an input may not lie in a model file. Weights,
// biases and scales may, because create copies them.
#pragma once

#include <cmath>
#include <limits>

#include "engine/kernels/kernel.h"
#include "engine/ops/activation.h"
#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/pool.h"
#include "ports/xnnpack/api.h"

namespace nacre::xnnpack {

inline bool is_constant(const Operands& operands, int i) {
  return !operands.has(i) || operands.tensor[i].record->region == Region::kWeights;
}
template <class T>
T* data_of(const Operands& operands, int i) {
  return operands.has(i) ? static_cast<T*>(operands.tensor[i].data) : nullptr;
}

// A clamp in XNNPACK's form, which needs low < high (fit()).
template <class T>
struct Bounds {
  T low, high;

  static Bounds from(const Clamp& clamp) {
    if constexpr (std::is_same_v<T, float>) {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      if (clamp.kind == Clamp::kNone) return {-kInfinity, kInfinity};
      return {std::bit_cast<float>(clamp.low), std::bit_cast<float>(clamp.high)};
    } else {
      return {clamp.code(-128), clamp.code(127)};
    }
  }
  bool fit() const { return low < high; }
};

struct AlwaysExact {
  static bool exact(const Words&, const Operands&) { return true; }
};

// ---- Products ----

// A convolution in XNNPACK's terms. Dense is a convolution of 1 x 1 over images of one pixel.
struct Convolution {
  uint32_t top = 0, right = 0, bottom = 0, left = 0;
  uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  uint32_t groups = 1;
  uint32_t group_in, group_out;
  uint32_t flags = 0;
  Map map;
  int x_zero;
  Epilogue epilogue;

  uint32_t terms() const { return kernel_h * kernel_w * group_in; }
  uint32_t out() const { return groups * group_out; }
};

inline Convolution convolution_of(const Dense& op, const Words&) {
  return {.group_in = uint32_t(op.in),
          .group_out = uint32_t(op.out),
          .map = {size_t(op.rows), 1, 1, uint32_t(op.in)},
          .x_zero = op.x_zero,
          .epilogue = op.epilogue};
}
inline Convolution convolution_of(const Conv2d& op, const Words& words) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  return {.top = uint32_t(h.before),
          .right = words[Conv2d::kWindow + 7],
          .bottom = words[Conv2d::kWindow + 6],
          .left = uint32_t(w.before),
          .kernel_h = uint32_t(h.kernel),
          .kernel_w = uint32_t(w.kernel),
          .stride_h = uint32_t(h.stride),
          .stride_w = uint32_t(w.stride),
          .dilation_h = uint32_t(h.dilation),
          .dilation_w = uint32_t(w.dilation),
          .groups = uint32_t(op.in_c / op.group_in),
          .group_in = uint32_t(op.group_in),
          .group_out = uint32_t(op.group_out),
          .map = {size_t(op.batch), size_t(h.in), size_t(w.in), uint32_t(op.in_c)},
          .x_zero = op.x_zero,
          .epilogue = op.epilogue};
}
inline Convolution convolution_of(const DepthwiseConv2d& op, const Words& words) {
  Convolution c = convolution_of(static_cast<const Conv2d&>(op), words);
  c.flags = XNN_FLAG_DEPTHWISE_CONVOLUTION;  // weights are [kernel_h, kernel_w, out]
  return c;
}

// Calls `create`, an xnn_create_convolution2d_nhwc_*(window, channels, a.., flags, caches, made).
template <class F, class... A>
xnn_status create_convolution(F create, xnn_operator_t* made, const Convolution& c, A... a) {
  return create_with(create, made, c.top, c.right, c.bottom, c.left, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w,
                     c.dilation_h, c.dilation_w, c.groups, size_t{c.group_in}, size_t{c.group_out},
                     size_t{c.map.channels}, size_t{c.out()}, a..., c.flags);
}

template <class O, class T>
struct PackedProduct {
  static constexpr int kY = std::is_same_v<T, float> ? 3 : 4;

  static Convolution from(const Words& words, const Operands& operands) {
    return convolution_of(O::from(words, operands), words);
  }
  static bool accepts(const Words& words, const Operands& operands) {
    bool constants = !is_constant(operands, O::kX);
    for (int i = O::kW; i < kY; ++i) constants = constants && is_constant(operands, i);
    return constants && Bounds<T>::from(from(words, operands).epilogue.clamp).fit();
  }
  static const T* weights(const Operands& operands) { return data_of<const T>(operands, O::kW); }
};

// y = clamp(s + b)
template <class O>
struct RealProduct : PackedProduct<O, float>, AlwaysExact {
  using Base = PackedProduct<O, float>;

  static xnn_status create(const Words& words, const Operands& operands, xnn_operator_t* made) {
    const Convolution c = Base::from(words, operands);
    const auto [low, high] = Bounds<float>::from(c.epilogue.clamp);
    return create_convolution(NACRE_XNN(xnn_create_convolution2d_nhwc_f32), made, c, Base::weights(operands),
                              data_of<const float>(operands, O::kBias), low, high);
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words& words, const Operands& operands, Allocate allocate) {
    return place_map<false>(NACRE_XNN(xnn_setup_convolution2d_nhwc_f32), NACRE_XNN(xnn_reshape_convolution2d_nhwc_f32),
                            op, Base::from(words, operands).map, data_of<const float>(operands, O::kX),
                            data_of<float>(operands, Base::kY), allocate);
  }
};

// y = clamp(zero_y + round_half_even(float(s + b) M)), M one or one per channel.
//
// XNNPACK takes M as a quotient of scales, x w / y; the port passes 1 M / 1, which adds no rounding. XNNPACK clamps
// the real product from above, converts it, and adds zero_y with saturation. The reference gives the same codes while
// the product stays within int32.
template <class O>
struct CodeProduct : PackedProduct<O, int8_t> {
  using Base = PackedProduct<O, int8_t>;

  // Requires for every channel a normal M in (0, 256), and |s + b| M < 2^31 - 2^8 if M >= 1. If M < 1, the product
  // stays below 2^31 - 2^7, however large the sum is.
  static bool exact(const Words& words, const Operands& operands) {
    const Convolution c = Base::from(words, operands);
    const float* const scale = data_of<const float>(operands, O::kScale);
    const int32_t* const bias = data_of<const int32_t>(operands, O::kBias);
    for (uint32_t k = 0; k < c.out(); ++k) {
      const float m = scale[c.epilogue.scale_index(int(k))];
      if (!std::isnormal(m) || !(m > 0.0f && m < 256.0f)) return false;
      const double most = 255.0 * 128.0 * c.terms() + (bias == nullptr ? 0.0 : std::abs(double(bias[k])));
      if (m >= 1.0f && most * double(m) >= 2147483648.0 - 256.0) return false;
    }
    return true;
  }

  static xnn_status create(const Words& words, const Operands& operands, xnn_operator_t* made) {
    const Convolution c = Base::from(words, operands);
    const float* const scale = data_of<const float>(operands, O::kScale);
    if (c.epilogue.per_channel)
      return create_with_scale(
          NACRE_XNN_RENAMED(xnn_create_convolution2d_nhwc_qs8_qc8w, xnn_create_convolution2d_nhwc_qc8), c, operands,
          scale, made);
    return create_with_scale(NACRE_XNN(xnn_create_convolution2d_nhwc_qs8), c, operands, *scale, made);
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words& words, const Operands& operands, Allocate allocate) {
    const Convolution c = Base::from(words, operands);
    const auto place_as = [&](auto setup, auto reshape) {
      return place_map<false>(setup, reshape, op, c.map, data_of<const int8_t>(operands, O::kX),
                              data_of<int8_t>(operands, Base::kY), allocate);
    };
    if (c.epilogue.per_channel)
      return place_as(NACRE_XNN_RENAMED(xnn_setup_convolution2d_nhwc_qs8_qc8w, xnn_setup_convolution2d_nhwc_qc8),
                      NACRE_XNN_RENAMED(xnn_reshape_convolution2d_nhwc_qs8_qc8w, xnn_reshape_convolution2d_nhwc_qc8));
    return place_as(NACRE_XNN(xnn_setup_convolution2d_nhwc_qs8), NACRE_XNN(xnn_reshape_convolution2d_nhwc_qs8));
  }

 private:
  template <class F, class Scale>  // float, or const float* for one scale per channel
  static xnn_status create_with_scale(F create, const Convolution& c, const Operands& operands, Scale scale,
                                      xnn_operator_t* made) {
    const auto [low, high] = Bounds<int8_t>::from(c.epilogue.clamp);
    return create_convolution(create, made, c, int8_t(c.x_zero), 1.0f, scale, Base::weights(operands),
                              data_of<const int32_t>(operands, O::kBias), int8_t(c.epilogue.y_zero), 1.0f, low, high);
  }
};

// ---- Pools ----

struct PoolWindow {
  uint32_t top, right, bottom, left, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  Map map;

  static PoolWindow from(const Words& words, const Operands& operands) {
    const Pool op = Pool::from(words, operands);
    const WindowAxis &h = op.window.h, &w = op.window.w;
    return {uint32_t(h.before),
            words[Pool::kWindow + 7],
            words[Pool::kWindow + 6],
            uint32_t(w.before),
            uint32_t(h.kernel),
            uint32_t(w.kernel),
            uint32_t(h.stride),
            uint32_t(w.stride),
            uint32_t(h.dilation),
            uint32_t(w.dilation),
            {size_t(op.batch), size_t(h.in), size_t(w.in), uint32_t(op.channels)}};
  }
  bool pads() const { return (top | right | bottom | left) != 0; }
  bool dilates() const { return dilation_h > 1 || dilation_w > 1; }
};

// Returns whether XNNPACK may take a pool. Newer versions of the library refuse strides larger than the window.
template <class T>
bool accepts_pool(const PoolWindow& w, const Words& words, const Operands& operands) {
  return !is_constant(operands, 0) && w.kernel_h * w.kernel_w > 1 && w.stride_h <= w.kernel_h &&
         w.stride_w <= w.kernel_w && Bounds<T>::from(Clamp::from(words, Pool::kClamp)).fit();
}

struct AveragePool : AlwaysExact {
  static bool accepts(const Words& words, const Operands& operands) {
    const PoolWindow w = PoolWindow::from(words, operands);
    const bool counts_pads = words[Pool::kCountIncludePad] != 0 && w.pads();
    return accepts_pool<float>(w, words, operands) && !w.dilates() && !counts_pads;
  }
  static xnn_status create(const Words& words, const Operands& operands, xnn_operator_t* made) {
    const PoolWindow w = PoolWindow::from(words, operands);
    const auto [low, high] = Bounds<float>::from(Clamp::from(words, Pool::kClamp));
    return create_pool(NACRE_XNN(xnn_create_average_pooling2d_nhwc_f32), made, w.map.channels, low, high, w.top,
                       w.right, w.bottom, w.left, w.kernel_h, w.kernel_w, w.stride_h, w.stride_w);
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words& words, const Operands& operands, Allocate allocate) {
    return place_map<true>(NACRE_XNN(xnn_setup_average_pooling2d_nhwc_f32),
                           NACRE_XNN(xnn_reshape_average_pooling2d_nhwc_f32), op, PoolWindow::from(words, operands).map,
                           data_of<const float>(operands, 0), data_of<float>(operands, 1), allocate);
  }
};

// For padding XNNPACK reads the nearest pixel of x. That pixel is in the window if the window is not dilated.
template <class T>
struct MaxPool : AlwaysExact {
  static bool accepts(const Words& words, const Operands& operands) {
    const PoolWindow w = PoolWindow::from(words, operands);
    return accepts_pool<T>(w, words, operands) && !(w.dilates() && w.pads());
  }
  static xnn_status create(const Words& words, const Operands& operands, xnn_operator_t* made) {
    const PoolWindow w = PoolWindow::from(words, operands);
    const auto [low, high] = Bounds<T>::from(Clamp::from(words, Pool::kClamp));
    const auto create_as = [&, low = low, high = high](auto create) {
      return create_pool(create, made, w.map.channels, low, high, w.top, w.right, w.bottom, w.left, w.kernel_h,
                         w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w);
    };
    if constexpr (std::is_same_v<T, float>) return create_as(NACRE_XNN(xnn_create_max_pooling2d_nhwc_f32));
    else return create_as(NACRE_XNN(xnn_create_max_pooling2d_nhwc_s8));
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words& words, const Operands& operands, Allocate allocate) {
    const auto place_as = [&](auto setup, auto reshape) {
      return place_map<true>(setup, reshape, op, PoolWindow::from(words, operands).map, data_of<const T>(operands, 0),
                             data_of<T>(operands, 1), allocate);
    };
    if constexpr (std::is_same_v<T, float>)
      return place_as(NACRE_XNN(xnn_setup_max_pooling2d_nhwc_f32), NACRE_XNN(xnn_reshape_max_pooling2d_nhwc_f32));
    else return place_as(NACRE_XNN(xnn_setup_max_pooling2d_nhwc_s8), NACRE_XNN(xnn_reshape_max_pooling2d_nhwc_s8));
  }
};

// ---- Functions of one element, and of two elements ----

template <xnn_status (*kCreate)(float, float, xnn_operator_t*),
          xnn_status (*kPlace)(xnn_operator_t, size_t, const float*, float*), bool kClamps>
struct OfOne : AlwaysExact {
  static Bounds<float> bounds(const Words& words) {
    return kClamps ? Bounds<float>::from(Clamp::from(words, Clip::kClamp)) : Bounds<float>{0, 1};
  }
  static bool accepts(const Words& words, const Operands& operands) {
    return !is_constant(operands, 0) && bounds(words).fit();
  }
  static xnn_status create(const Words& words, const Operands&, xnn_operator_t* made) {
    return kCreate(bounds(words).low, bounds(words).high, made);
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words&, const Operands& operands, Allocate) {
    return kPlace(op, size_t(operands[0].elements()), data_of<const float>(operands, 0), data_of<float>(operands, 1));
  }
};

inline Dims6 dims_for_xnnpack(Shape shape) {
  Dims6 dims = {size_t(shape.rank), {}};
  for (int axis = 0; axis < shape.rank; ++axis) dims.size[axis] = size_t(shape[axis]);
  return dims;
}

template <xnn_status (*kCreate)(float, float, xnn_operator_t*),
          xnn_status (*kPlace)(xnn_operator_t, const Dims6&, const Dims6&, const float*, const float*, float*)>
struct OfTwo : AlwaysExact {
  static Bounds<float> bounds(const Words& words) { return Bounds<float>::from(Clamp::from(words, Sum::kClamp)); }
  static bool accepts(const Words& words, const Operands& operands) {
    return !is_constant(operands, 0) && !is_constant(operands, 1) && bounds(words).fit() &&
           operands[0].rank <= XNN_MAX_TENSOR_DIMS && operands[1].rank <= XNN_MAX_TENSOR_DIMS &&
           (kBinaryClamps || words[Sum::kClamp] == Clamp::kNone);
  }
  static xnn_status create(const Words& words, const Operands&, xnn_operator_t* made) {
    return kCreate(bounds(words).low, bounds(words).high, made);
  }
  template <class Allocate>
  static xnn_status place(xnn_operator_t op, const Words&, const Operands& operands, Allocate) {
    return kPlace(op, dims_for_xnnpack(operands[0]), dims_for_xnnpack(operands[1]), data_of<const float>(operands, 0),
                  data_of<const float>(operands, 1), data_of<float>(operands, 2));
  }
};

using ClampForm = OfOne<&create_clamp, &place_clamp, true>;
using SigmoidForm = OfOne<&create_sigmoid, &place_sigmoid, false>;
using HardSwishForm = OfOne<&create_hard_swish, &place_hard_swish, false>;
using AddForm = OfTwo<&create_add, &place_add>;
using SubForm = OfTwo<&create_sub, &place_sub>;
using MulForm = OfTwo<&create_mul, &place_mul>;

}  // namespace nacre::xnnpack

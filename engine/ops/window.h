// The window that convolutions, depthwise convolutions and pools share: kernel, stride, dilation and four explicit
// pads over NHWC.
//
//   out = floor((in + pad_before + pad_after - (kernel - 1) dilation - 1) / stride) + 1        per axis
//   input position of tap t for output position o:   o stride - pad_before + t dilation
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct WindowAxis {
  int in, out, kernel, stride, dilation, before;

  constexpr int position(int o, int tap) const { return o * stride - before + tap * dilation; }
  constexpr bool inside(int position) const { return position >= 0 && position < in; }

  // Returns the output position whose tap `tap` reads `position`, or -1 if there is none. Gradients use it to read
  // dy.
  constexpr int output(int position, int tap) const {
    const int offset = position + before - tap * dilation;
    if (offset < 0 || offset % stride != 0) return -1;
    return offset / stride < out ? offset / stride : -1;
  }

  // The taps [first, end) of output position o that read inside x. It is empty if all of the window is padding.
  struct Taps {
    int first, end;
  };
  constexpr Taps taps(int o) const {
    Taps taps = {0, kernel};
    while (taps.first < kernel && position(o, taps.first) < 0) ++taps.first;
    while (taps.end > taps.first && position(o, taps.end - 1) >= in) --taps.end;
    return taps;
  }
};

// Reads eight words from `first` on: stride_h, stride_w, dilation_h, dilation_w (less 1), pad_top, pad_left,
// pad_bottom, pad_right.
struct Window {
  WindowAxis h, w;

  static constexpr int kWords = 8;

  static constexpr Window from(const Words& words, int first, Shape x, Shape y, int kernel_h, int kernel_w) {
    return {.h = axis(words, first, x[1], y[1], kernel_h), .w = axis(words, first + 1, x[2], y[2], kernel_w)};
  }

  // Computes the output sizes of the two axes from untrusted words. `x` has rank 4.
  static constexpr Code sizes(const Words& words, int first, Shape x, int kernel_h, int kernel_w, int* out_h,
                              int* out_w) {
    NACRE_TRY_CODE(size(words, first, x[1], kernel_h, out_h));
    return size(words, first + 1, x[2], kernel_w, out_w);
  }

 private:
  // Reads one axis. `first` is the index of its stride; dilation and pads follow at steps of two. It is not inlined,
  // to save code size.
  [[gnu::noinline]] static constexpr WindowAxis axis(const Words& words, int first, int in, int out, int kernel) {
    return {.in = in,
            .out = out,
            .kernel = kernel,
            .stride = words.integer(first) + 1,
            .dilation = words.integer(first + 2) + 1,
            .before = words.integer(first + 4)};
  }

  static constexpr Code size(const Words& words, int first, int in, int kernel, int* out) {
    const uint32_t stride = words[first], dilation = words[first + 2];
    const uint32_t before = words[first + 4], after = words[first + 6];
    if (stride >= kMaxWindow || dilation >= kMaxWindow || kernel < 1 || kernel > kMaxWindow) return Code::kStride;
    if (before >= kMaxWindow || after >= kMaxWindow) return Code::kPadding;
    // (2^14 - 1) * 2^14 + 1 < 2^28, and in <= 2^28: no overflow.
    const int span = (kernel - 1) * int(dilation + 1) + 1;
    if (int(before) >= span || int(after) >= span) return Code::kPadding;
    const int padded = in + int(before) + int(after);
    if (padded < span) return Code::kWindow;
    *out = int(uint32_t(padded - span) / (stride + 1)) + 1;
    return Code::kOk;
  }
};

inline constexpr Attribute kWindowAttributes[] = {{"stride_h", Coding::kLessOne},
                                                  {"stride_w", Coding::kLessOne},
                                                  {"dilation_h", Coding::kLessOne},
                                                  {"dilation_w", Coding::kLessOne},
                                                  {"pad_top"},
                                                  {"pad_left"},
                                                  {"pad_bottom"},
                                                  {"pad_right"}};

}  // namespace nacre::inline NACRE_ISA

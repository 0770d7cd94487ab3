// Random convolutions with any stride, dilation, padding and groups, and the products that they sum.
#pragma once

#include <algorithm>

#include "tests/cases_random.h"

namespace nacre::test {

// One axis: in, out, kernel, and the words of stride, dilation and both pads. y has at least one position.
struct RandomAxis {
  int in, out, kernel;
  uint32_t stride, dilation, before, after;

  explicit RandomAxis(Random& random) : kernel(pick(random, 1, 3)) {
    stride = uint32_t(pick(random, 0, 2)), dilation = uint32_t(pick(random, 0, 2));
    const int span = (kernel - 1) * int(dilation + 1) + 1;
    before = uint32_t(pick(random, 0, span - 1)), after = uint32_t(pick(random, 0, span - 1));
    in = pick(random, std::max(1, span - int(before + after)), 9);
    out = (in + int(before + after) - span) / int(stride + 1) + 1;
  }
  int position(int o, int tap) const { return o * int(stride + 1) - int(before) + tap * int(dilation + 1); }
};

// `words` are those of conv2d and of the gradient of w, `words_x` those of the gradient of x.
struct RandomConv {
  RandomAxis h, w;
  int groups, batch, in_c, out_c;
  std::vector<uint32_t> words, words_x;
  std::vector<int32_t> x_dims, w_dims, y_dims;

  // Draws one group, or two in one of four convolutions. A group has at most `channels` of x and of y.
  explicit RandomConv(Random& random, int channels = 5)
      : h(random), w(random), groups(pick(random, 0, 3) == 0 ? 2 : 1), batch(pick(random, 1, 3)) {
    in_c = groups * pick(random, 1, channels), out_c = groups * pick(random, 1, channels);
    words = {h.stride, w.stride, h.dilation, w.dilation,           h.before, w.before, h.after, w.after, 0, 0,
             0,        0,        0,          uint32_t(groups - 1), 0,        0};
    words_x = words;
    for (const int n : {h.in, w.in, in_c}) words_x.push_back(uint32_t(n));
    x_dims = {batch, h.in, w.in, in_c}, y_dims = {batch, h.out, w.out, out_c};
    w_dims = {out_c, h.kernel, w.kernel, in_c / groups};
  }

  // Calls f(index into x, into w, into y) for every product x w in the sums of y.
  template <class F>
  void each_product(F f) const {
    const int of_group = in_c / groups;
    for (int n = 0; n < batch; ++n)
      for (int o = 0; o < h.out; ++o)
        for (int v = 0; v < w.out; ++v)
          for (int k = 0; k < out_c; ++k)
            for (int i = 0; i < h.kernel; ++i)
              for (int j = 0; j < w.kernel; ++j)
                for (int c = 0; c < of_group; ++c) {
                  const int p = h.position(o, i), q = w.position(v, j);
                  if (p < 0 || p >= h.in || q < 0 || q >= w.in) continue;
                  f(((n * h.in + p) * w.in + q) * in_c + k / (out_c / groups) * of_group + c,
                    ((k * h.kernel + i) * w.kernel + j) * of_group + c, ((n * h.out + o) * w.out + v) * out_c + k);
                }
  }
};

}  // namespace nacre::test

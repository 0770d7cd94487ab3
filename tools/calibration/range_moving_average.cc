#include <algorithm>

#include "tools/calibration/range_method.h"

namespace nacre::tools {

// Returns the exponential moving average of every sample's range, computed like TensorFlow's MovingAvgQuantize
// (contrib/quantize/python/quant_ops.py: 0 is part of every sample's range; decay 0.999). It calls
// assign_moving_average (python/training/moving_averages.py) with zero_debias, after Kingma and Ba 2014,
// arXiv:1412.6980, section 3: the start at 0 is divided out.
//
//   a_0 = 0,   a_t = decay a_{t-1} + (1 - decay) min(0, min_i x_ti),   low = a_T / (1 - decay^T)
//
// and high likewise, with max.
//
// A rare large sample moves the range little, and its numbers beyond the range saturate.
Range moving_average_range(std::span<const Range> samples, double decay) {
  double low = 0, high = 0, weight = 0;  // weight is 1 - decay^t
  for (const Range& sample : samples) {
    low = decay * low + (1 - decay) * double(std::min(0.0f, sample.low));
    high = decay * high + (1 - decay) * double(std::max(0.0f, sample.high));
    weight = decay * weight + (1 - decay);
  }
  return {float(low / weight), float(high / weight)};
}

}  // namespace nacre::tools

#include "tools/calibration/range_method.h"

namespace nacre::tools {

// The middle P percent of all n values: with k = floor(n (100 - P) / 200),
//
//   low = the (k + 1)-th smallest value,  high = the (k + 1)-th largest
//
// so at most k values saturate on each side. The cut on both sides is onnxruntime's (quantization/calibrate.py,
// HistogramCollector.compute_percentile), which finds it to a bin of a histogram; here it is exact.
Range percentile_range(const Tails& tails) { return {tails.low(), tails.high()}; }

}  // namespace nacre::tools

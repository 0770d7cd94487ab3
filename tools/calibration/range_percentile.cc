#include "tools/calibration/range_method.h"

namespace nacre::tools {

// Returns the range of the middle P percent of all n values. With k = floor(n (100 - P) / 200),
//
//   low = the (k + 1)-th smallest value,  high = the (k + 1)-th largest
//
// so at most k values saturate on each side. onnxruntime cuts both sides too (quantization/calibrate.py,
// HistogramCollector.compute_percentile), but only to a bin of a histogram. This range is exact.
Range percentile_range(const Tails& tails) { return {tails.low(), tails.high()}; }

}  // namespace nacre::tools

#include <limits>

#include "tests/claims/random_files.h"
#include "tests/importers/tflite_builder.h"

namespace nacre::test {
namespace {

using namespace tools::tflite;
using tools::SplitMix64;

constexpr float kScales[] = {0,
                             1e-45f,
                             1e-40f,
                             1.17549435e-38f,
                             1e-25f,
                             1e-20f,
                             1e20f,
                             3e38f,
                             -1,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};

class Maker {
 public:
  explicit Maker(SplitMix64& random) : random_(random), wild_(random.below(3) != 0), hybrid_(random.below(4) == 0) {}

  RandomFile run() {
    const int in = size(), hidden = size(), out = size();
    const int x = activation("x", {1, 4, 4, in});
    const int c = conv(x, in, hidden), d = depthwise(c, hidden), f = dense(d, 16 * hidden, out);
    return {
        std::string("tflite") + (hybrid_ ? " hybrid" : " int8") + (wild_ ? " wild" : ""), b_.finish({x}, {f}), {}, 0};
  }

 private:
  int size() { return int(1 + random_.below(5)); }
  float scale() {
    return wild_ && random_.below(10) == 0 ? kScales[random_.below(std::size(kScales))]
                                           : 0.001f * float(1 + random_.below(500));
  }

  int activation(const std::string& name, const std::vector<int32_t>& shape) {
    return hybrid_ ? b_.activation(name, shape)
                   : b_.activation(name, shape, scale(), int64_t(random_.below(256)) - 128);
  }

  Codes scales(int count, int axis) {
    Codes codes{{}, {}, axis};
    const bool several = random_.below(2) == 0;
    for (int i = 0; i < (several ? count : 1); ++i) codes.scale.push_back(scale()), codes.zero.push_back(0);
    if (several && random_.below(4) == 0) codes.zero = {0};  // one zero point for all channels
    return codes;
  }

  int weights(const std::vector<int32_t>& shape, int channels, int axis) {
    int count = 1;
    for (const int32_t d : shape) count *= d;
    std::vector<int8_t> data;
    for (int i = 0; i < count; ++i) data.push_back(int8_t(int(random_.below(255)) - 127));
    return b_.codes("w", shape, data, scales(channels, axis));
  }

  // The bias may have any quantization, because no kernel reads it.
  int bias(int channels) {
    std::vector<int32_t> data;
    for (int i = 0; i < channels; ++i) data.push_back(int32_t(random_.below(2001)) - 1000);
    if (hybrid_) return b_.floats("b", {channels}, std::vector<float>(data.begin(), data.end()));
    const bool row = random_.below(4) == 0;
    Codes codes = random_.below(4) == 0 ? Codes{} : scales(channels, int(random_.below(5)));
    for (float& s : codes.scale)
      if (wild_ && random_.below(4) == 0) s = kScales[random_.below(std::size(kScales))];
    return b_.int32s("b", row ? std::vector<int32_t>{1, channels} : std::vector<int32_t>{channels}, data, codes);
  }

  int conv(int x, int in, int out) {
    const int w = weights({out, 3, 3, in}, out, 0), b = bias(out), y = activation("conv", {1, 4, 4, out});
    b_.op(BuiltinOperator::CONV_2D, {x, w, b}, {y}, CreateConv2DOptions(b_.fbb(), Padding::SAME, 1, 1));
    return y;
  }

  int depthwise(int x, int channels) {
    const int w = weights({1, 3, 3, channels}, channels, 3), b = bias(channels),
              y = activation("depthwise", {1, 4, 4, channels});
    b_.op(BuiltinOperator::DEPTHWISE_CONV_2D, {x, w, b}, {y},
          CreateDepthwiseConv2DOptions(b_.fbb(), Padding::SAME, 1, 1, 1));
    return y;
  }

  int dense(int x, int in, int out) {
    const int w = weights({out, in}, out, 0), b = bias(out), y = activation("dense", {1, out});
    b_.op(BuiltinOperator::FULLY_CONNECTED, {x, w, b}, {y}, CreateFullyConnectedOptions(b_.fbb()));
    return y;
  }

  SplitMix64& random_;
  bool wild_, hybrid_;
  TfliteBuilder b_;
};

}  // namespace

RandomFile random_tflite(SplitMix64& random) { return Maker(random).run(); }

}  // namespace nacre::test

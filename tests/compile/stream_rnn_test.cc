// Tests networks of UNIDIRECTIONAL_SEQUENCE_RNN, whose variable is kept from run to run, against a loop in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compile/streamed.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

constexpr int kRnnIn = 3, kRnnWidth = 2;

std::vector<float> waves(size_t count, double phase) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = float(std::sin(double(i) * 1.7 + phase) * 0.8);
  return x;
}

struct RnnFile {
  int32_t time = 3;
  bool time_major = false;
  std::vector<float> w = waves(kRnnWidth * kRnnIn, 1), r = waves(kRnnWidth * kRnnWidth, 2), b = waves(kRnnWidth, 3);

  std::vector<uint8_t> bytes() const {
    TfliteBuilder file;
    const int x = file.activation("x", {1, time, kRnnIn}), y = file.activation("y", {1, time, kRnnWidth});
    const int h =
        file.tensor({.name = "h", .shape = {1, kRnnWidth}, .data = {}, .codes = {}, .signature = {}, .variable = true});
    file.op(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN,
            {x, file.floats("w", {kRnnWidth, kRnnIn}, w), file.floats("r", {kRnnWidth, kRnnWidth}, r),
             file.floats("b", {kRnnWidth}, b), h},
            {y}, CreateSequenceRNNOptions(file.fbb(), time_major, Activation::TANH));
    return file.finish({x}, {y});
  }

  std::vector<double> run(const std::vector<float>& x, std::vector<double>& h) const {
    std::vector<double> y;
    for (size_t t = 0; t < size_t(time); ++t) {
      std::vector<double> next;
      for (size_t j = 0; j < kRnnWidth; ++j) {
        double a = double(b[j]);
        for (size_t i = 0; i < kRnnIn; ++i) a += double(w[j * kRnnIn + i]) * double(x[t * kRnnIn + i]);
        for (size_t i = 0; i < kRnnWidth; ++i) a += double(r[j * kRnnWidth + i]) * h[i];
        next.push_back(std::tanh(a));
      }
      y.insert(y.end(), next.begin(), next.end());
      h = next;
    }
    return y;
  }
};

TEST(streams_of_tflite, an_rnn_keeps_its_state_from_run_to_run) {
  for (const int32_t time : {1, 3, 40}) {  // 40: its outputs are joined in parts
    const RnnFile file = {.time = time};
    Streamed streamed(imported(file.bytes()));
    EXPECT_EQ(streamed.stream_bytes(), 16u);
    std::vector<double> h(kRnnWidth);
    for (int run = 0; run < 3; ++run) {
      const std::vector<float> x = waves(size_t(time) * kRnnIn, run);
      const std::vector<float> found = streamed.run(x);
      const std::vector<double> expected = file.run(x, h);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(double(found[i]), expected[i], 1e-5) << time << " steps, run " << run << ", " << i;
    }
  }
  EXPECT_NE(refusal(RnnFile{.time_major = true}.bytes(), kUnsupported).find("whose first axis is time"),
            std::string::npos);
}

}  // namespace
}  // namespace nacre::tools::tflite

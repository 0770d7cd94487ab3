// Computes the sums of the magnitudes of a gradient's terms.
#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/ops/binary.h"
#include "tests/op_rows.h"

namespace nacre::test::magnitudes {
namespace {

std::vector<double> values(const Array& array) {
  std::vector<double> all;
  for (int64_t i = 0; i < array.elements(); ++i) all.push_back(array.real(i));
  return all;
}
Array result(const Execution& run) { return run.outputs.empty() ? run.updated.at(0) : run.outputs[0]; }
// Returns |dy| times a bound of the factor.
std::vector<double> scaled(const GradientStep& step, double (*factor)(double v)) {
  std::vector<double> all;
  for (int64_t i = 0; i < step.operands[0].elements(); ++i)
    all.push_back(std::abs(step.operands[0].real(i)) * factor(step.operands[1].real(i)));
  return all;
}

}  // namespace

// Runs a step that is linear in each operand on the operands' magnitudes. sum_to runs without its sign.
std::vector<double> linear(const GradientStep& step) {
  GradientStep absolute = step;
  for (Array& operand : absolute.operands)
    for (int64_t i = 0; operand.present() && i < operand.elements(); ++i) operand.set(i, std::abs(operand.real(i)));
  if (absolute.entry->op == Op::kSumTo) absolute.words.back() = 0;
  std::vector<double> all = values(result(execute(*absolute.entry, absolute.words, absolute.operands)));
  for (double& v : all) v = std::abs(v);
  return all;
}
std::vector<double> gated(const GradientStep& step) {  // sigmoid, tanh
  return scaled(step, [](double y) { return 1 + std::abs(y); });
}
std::vector<double> selected(const GradientStep& step) {  // clamp, leaky_relu (|alpha| <= 1.5)
  return scaled(step, [](double) { return 1.5; });
}
std::vector<double> hard_swish(const GradientStep& step) {
  return scaled(step, [](double x) { return (2 * std::abs(x) + 9) / 6; });
}
// Returns beta |y_i| (|dy_i| + sum_j |dy_j y_j|).
std::vector<double> softmax(const GradientStep& step) {
  const Array &dy = step.operands[0], &y = step.operands[1];
  const size_t axis = step.words[0];
  const double beta = std::bit_cast<float>(step.words[1]);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < y.dims.size(); ++i) inner *= y.dims[i];
  const int64_t width = y.dims[axis];
  std::vector<double> all;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t first = i / (width * inner) * width * inner + i % inner;
    double sum = std::abs(dy.real(i));
    for (int64_t j = 0; j < width; ++j) sum += std::abs(dy.real(first + j * inner) * y.real(first + j * inner));
    all.push_back(beta * std::abs(y.real(i)) * sum);
  }
  return all;
}
// sum_r |dy (x - mean)| f + |the sum before|, f = inverse_deviation or 1 / sqrt(variance + epsilon)
std::vector<double> norm_scale(const GradientStep& step) {
  const Array &dy = step.operands[0], &x = step.operands[1], &mean = step.operands[2], &f = step.operands[3];
  const int64_t channels = mean.elements();
  const bool frozen = step.entry->op == Op::kBatchNormGradientScale;
  const double epsilon = frozen ? double(std::bit_cast<float>(step.words[0])) : 0;
  std::vector<double> all;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t i = c; i < x.elements(); i += channels) sum += std::abs(dy.real(i) * (x.real(i) - mean.real(c)));
    all.push_back(sum * (frozen ? 1 / std::sqrt(f.real(c) + epsilon) : f.real(c)) + std::abs(step.operands[4].real(c)));
  }
  return all;
}
// |scale f| (|dy| + sum |dy| / n + |u| sum |dy u| / n), n rows in a channel, u = (x - mean) f, f = 1 / deviation
std::vector<double> norm_x(const GradientStep& step) {
  const Array &dy = step.operands[0], &x = step.operands[1], &scale = step.operands[2], &mean = step.operands[3],
              &f = step.operands[4];
  const int64_t channels = mean.elements(), rows = x.elements() / channels;
  std::vector<double> all;
  const auto u = [&](int64_t i) { return std::abs((x.real(i) - mean.real(i % channels)) * f.real(i % channels)); };
  for (int64_t i = 0; i < x.elements(); ++i) {
    double sum = 0, product = 0;
    for (int64_t j = i % channels; j < x.elements(); j += channels)
      sum += std::abs(dy.real(j)), product += std::abs(dy.real(j)) * u(j);
    all.push_back(std::abs(scale.real(i % channels) * f.real(i % channels)) *
                  (std::abs(dy.real(i)) + sum / double(rows) + u(i) * product / double(rows)));
  }
  return all;
}
// Runs the step for |dy|, which goes to the same elements as dy.
std::vector<double> max_pool(const GradientStep& step) {
  std::vector<Array> operands = step.operands;
  for (int64_t i = 0; i < operands[0].elements(); ++i) operands[0].set(i, std::abs(operands[0].real(i)));
  return values(result(execute(*step.entry, step.words, operands)));
}

// Returns the result itself: a product of factors that each have a relative error.
std::vector<double> product(const GradientStep& step) {
  std::vector<double> all = values(result(execute(*step.entry, step.words, step.operands)));
  for (double& v : all) v = std::abs(v);
  return all;
}

// |dy_i| + exp(y_i) (|y_i| + 2) sum_j |dy_j|
std::vector<double> log_softmax(const GradientStep& step) {
  const Array &dy = step.operands[0], &y = step.operands[1];
  int64_t inner = 1;
  for (size_t i = step.words[0] + 1; i < y.dims.size(); ++i) inner *= y.dims[i];
  const int64_t width = y.dims[step.words[0]];
  std::vector<double> all;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t first = i / (width * inner) * width * inner + i % inner;
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) sum += std::abs(dy.real(first + j * inner));
    all.push_back(std::abs(dy.real(i)) + std::exp(y.real(i)) * (std::abs(y.real(i)) + 2) * sum);
  }
  return all;
}

// Returns sum |dy df/dx|: runs the step on dy with the sign of df/dx, which is the sign of `slope` for pow, div and
// squared_difference. In the other functions df/dx is never negative.
std::vector<double> binary(const GradientStep& step) {
  std::vector<Array> operands = step.operands;
  const Array &a = operands[1], &b = operands[2];
  Array& dy = operands[0];
  for (int64_t i = 0; i < dy.elements(); ++i) {
    const auto index = index_of(dy.dims, i);
    const double u = a.real(broadcast_offset(a.dims, index)), v = b.real(broadcast_offset(b.dims, index));
    double slope = 1;
    if (step.words[0] == Binary::kPow) slope = step.words[1] != 0 ? u - 1 : v;
    if (step.words[0] == Binary::kDiv) slope = step.words[1] != 0 ? -u : v;
    if (step.words[0] == Binary::kSquaredDifference) slope = u - v;
    dy.set(i, std::copysign(dy.real(i), slope));
  }
  std::vector<double> all = values(result(execute(*step.entry, step.words, operands)));
  for (double& v : all) v = std::abs(v);
  return all;
}

}  // namespace nacre::test::magnitudes

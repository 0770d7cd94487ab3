// Everything that tests know about an op, in one row: cases, oracle, number formats and gradient. The row is in the
// file of the op's family, next to its functions, so that a new op of a family changes only that file.
#pragma once

#include <span>

#include "tests/bounded.h"
#include "tests/cases.h"
#include "tests/gradient_check.h"
#include "tests/oracle_problem.h"

namespace nacre::test {

// Number formats of kernels: all operands of one float type, all of int8, or another mixture.
enum Form : unsigned { kFloat32 = 1, kFloat16 = 2, kBfloat16 = 4, kFloat64 = 8, kInt8 = 16, kOther = 32 };
inline constexpr unsigned kRealForms = kFloat32 | kFloat16 | kBfloat16 | kFloat64;
inline constexpr unsigned kAllForms = kRealForms | kInt8 | kOther;

// Returns, for each element of a gradient step's result, the sum of its terms' magnitudes.
using Magnitude = std::vector<double> (*)(const GradientStep& step);

struct OpRow {
  Op op;
  CaseMaker make = nullptr;  // null: training alone has the op
  unsigned traits = 0;       // traits that its cases must show
  std::vector<Expected> (*oracle)(const Problem& problem) = nullptr;
  unsigned forms = kRealForms | kInt8;  // formats that must have a kernel
  // Makes a step whose gradient is to be checked; null if it has no gradient.
  void (*gradient)(Random& random, GradientCase& made) = nullptr;
  // The outputs of the function to differentiate in place of the kernel. A gradient passes straight through a
  // quantizer.
  std::vector<Array> (*surrogate)(const GradientCase& made) = nullptr;
  // Bit r + 8 n is set if read r of row n of the op's gradients needs only the shape, no value.
  uint64_t shape_only = 0;
  // Returns the expected results of a kernel of training, or with a state, by its formula; `y` are the output's dims.
  // If null, or for codes, the reference kernel's bits are expected, but for the promises of
  // kernels_correct_reference.cc.
  Lists (*bounds)(const Problem& problem, const Index& y) = nullptr;
  Magnitude magnitude = nullptr;  // of a gradient that sums; null: not compared with float64
};

std::span<const OpRow> rows_of_products();
std::span<const OpRow> rows_of_elements();
std::span<const OpRow> rows_of_reductions();
std::span<const OpRow> rows_of_moves();
std::span<const OpRow> rows_of_layers();
std::span<const OpRow> rows_of_training();
const OpRow* find_op_row(Op op);        // null if no family has the op
const OpRow* find_gradient_row(Op op);  // null if it has no gradient case

// Oracles defined in oracle*.cc.
std::vector<Expected> dense(const Problem& p);
std::vector<Expected> conv(const Problem& p);
std::vector<Expected> pool(const Problem& p);
std::vector<Expected> resize(const Problem& p);
std::vector<Expected> reshape(const Problem& p);
std::vector<Expected> transpose(const Problem& p);
std::vector<Expected> concat(const Problem& p);
std::vector<Expected> pad(const Problem& p);
std::vector<Expected> slice(const Problem& p);
std::vector<Expected> quantize(const Problem& p);
std::vector<Expected> requantize(const Problem& p);
std::vector<Expected> cast(const Problem& p);
std::vector<Expected> dynamic_quantize(const Problem& p);
std::vector<Expected> gated(const Problem& p);
std::vector<Expected> layer_norm(const Problem& p);
std::vector<Expected> embedding(const Problem& p);
std::vector<Expected> signal(const Problem& p);
std::vector<Expected> tree_ensemble(const Problem& p);
std::vector<Expected> non_max_suppression(const Problem& p);
std::vector<Expected> batched_matmul(const Problem& p);
std::vector<Expected> lstm(const Problem& p);
std::vector<Expected> gru(const Problem& p);
std::vector<Expected> stream_lstm(const Problem& p);
std::vector<Expected> svdf(const Problem& p);
std::vector<Expected> uniform(const Problem& p);
std::vector<Expected> unary(const Problem& p);
std::vector<Expected> binary(const Problem& p);
std::vector<Expected> reduce(const Problem& p);
std::vector<Expected> arg_max(const Problem& p);
std::vector<Expected> log_softmax(const Problem& p);
std::vector<Expected> elementwise(const Problem& p);
std::vector<Expected> clamp(const Problem& p);
std::vector<Expected> activation(const Problem& p);
std::vector<Expected> lookup(const Problem& p);
std::vector<Expected> softmax(const Problem& p);
std::vector<Expected> batch_norm(const Problem& p);
std::vector<Expected> mean(const Problem& p);

// Bounds defined in bounds*.cc.
namespace bounds {
Lists sum_to(const Problem& p, const Index& x);
Lists mul(const Problem& p, const Index& x);
Lists binary(const Problem& p, const Index& x);
Lists gelu(const Problem& p, const Index& x);
Lists silu(const Problem& p, const Index& x);
Lists unary(const Problem& p, const Index& x);
Lists softmax(const Problem& p, const Index& x);
Lists layer_norm_x(const Problem& p, const Index& x);
Lists layer_norm_scale(const Problem& p, const Index& x);
Lists cross_entropy(const Problem& p, const Index& x);
Lists number_loss(const Problem& p, const Index& x);
Lists fake_quantize_range(const Problem& p, const Index& x);
Lists lstm(const Problem& p, const Index&);
Lists stream_lstm(const Problem& p, const Index&);
Lists svdf(const Problem& p, const Index&);
Lists lstm_gradient(const Problem& p, const Index&);
Lists gru(const Problem& p, const Index&);
Lists gru_gradient(const Problem& p, const Index&);
}  // namespace bounds

// Magnitudes defined in magnitudes.cc.
namespace magnitudes {
std::vector<double> linear(const GradientStep& step);
std::vector<double> gated(const GradientStep& step);
std::vector<double> selected(const GradientStep& step);
std::vector<double> hard_swish(const GradientStep& step);
std::vector<double> softmax(const GradientStep& step);
std::vector<double> norm_scale(const GradientStep& step);
std::vector<double> norm_x(const GradientStep& step);
std::vector<double> max_pool(const GradientStep& step);
std::vector<double> product(const GradientStep& step);
std::vector<double> log_softmax(const GradientStep& step);
std::vector<double> binary(const GradientStep& step);
}  // namespace magnitudes

// Gradient cases defined in cases_gradients.cc. draw() takes a case of the op's row; `clamp` is the first word of a
// fused clamp to leave out, or -1.
void draw(Op op, int clamp, Random& random, GradientCase& made);
template <Op kOp, int kClamp = -1>
void drawn(Random& random, GradientCase& made) {
  draw(kOp, kClamp, random, made);
}
void max_pool(Random& random, GradientCase& made);
void reduce(Random& random, GradientCase& made);
void clamp(Random& random, GradientCase& made);
void leaky_relu(Random& random, GradientCase& made);
void hard_swish(Random& random, GradientCase& made);
void unary_function(Random& random, GradientCase& made);
void binary_function(Random& random, GradientCase& made);
void layer_norm(Random& random, GradientCase& made);
void embedding(Random& random, GradientCase& made);
void resize(Random& random, GradientCase& made);

}  // namespace nacre::test

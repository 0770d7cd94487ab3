// Gradients by the table of an op (OpRule::gradients), and by central differences of its forward kernel.
//
// Both are of f = sum over the outputs of y_i dy_i, dy random; of a loss, which has no output but the sum `loss` that
// it updates, f = seed loss. Everything is computed by the float64 kernels.
#pragma once

#include <string>
#include <vector>

#include "engine/ops/op.h"
#include "tests/one_step.h"
#include "tests/random.h"

namespace nacre::test {

inline constexpr double kDifference = 1.0 / (1 << 10);  // h
inline constexpr double kClear = 3 * kDifference;       // differences are taken over +-2 h
inline constexpr double kGrid = 1.0 / (1 << 16);

// A step whose gradient is to be checked. Real inputs are multiples of kGrid, so that x +- h is exact, and stay kClear
// away from where the function has a kink.
struct GradientCase {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;  // updated operands too
  Rounding rounding = Rounding::kNone;
};

struct OpRow;  // op_rows.h

// The first entry, of the reference kernels or those of training, whose inputs have the types of the arrays, with at
// least `outputs`.
const KernelEntry* find_kernel(Op op, Rounding rounding, const std::vector<Array>& inputs, size_t outputs = 0);

// A case that was run forward, and what its gradients are made of.
struct Linearized {
  const OpRow* row = nullptr;
  const OpRule* rule = nullptr;
  const KernelEntry* entry = nullptr;
  GradientCase made;
  std::vector<Array> outputs;
  std::vector<Array> dy;  // of every output; absent where no row reads it
  Array seed;             // float32 [1]
  std::string why;        // not empty: the step did not run, or is not pure
};
Linearized linearize(const OpRow& row, const GradientCase& made, Random& random);

// A row of the op's table of gradients, and the input that the row gives a gradient for. Every input of a variadic op
// takes the rows of input 0.
struct Target {
  size_t row;
  int input;
};
std::vector<Target> targets(const Linearized& step);
bool has_target(const OpRule& rule, int input);

// An error made on purpose, to see that it is noticed.
struct Mutation {
  enum Kind {
    kNone,
    kElement,   // one element of the gradient has the other sign
    kTerm,      // one element of dy, or the seed, has: one term of the sums
    kReversed,  // the elements of read `read` stand in reverse order
  } kind = kNone;
  int read = 0;
  size_t element = 0;
};

// The gradient step as the row says: attributes, what it reads, then the sum that it adds to.
struct GradientStep {
  const KernelEntry* entry = nullptr;  // float64
  std::vector<uint32_t> words;
  std::vector<Array> operands;
};
GradientStep gradient_step(const Linearized& step, const Target& target);

// The gradient that the step makes. `why` is not empty if there is no kernel or it does not run. `changed`: the
// mutation changed a bit.
struct TableGradient {
  Array value;
  std::string why;
  bool changed = false;
};
TableGradient table_gradient(const Linearized& step, const Target& target, const Mutation& mutation = {});

// df / dx_i of one element of an input, and a bound on how far the table's gradient may be from it:
//
//   D(h) = sum_i (y_i(x + h) - y_i(x - h)) dy_i / 2 h = f' + h^2 f''' / 6 + O(h^4)
//   truncation   |D(2h) - D(h)| = h^2 |f'''| / 2 + O(h^4), three times the error of D(h)
//   rounding     an output is computed from at most K = terms + 512 operations (512 for the functions in it) on
//                magnitudes of at most S = terms M^2 + max |y| + M, M = max(1, max |x|): y_i is within u K S of its
//                real value, so that D(h)
//                is within  u K S sum_i |dy_i| / h  over the y_i that change, and the gradient step, which makes sums
//                           of the
//                same kind, within  u K S sum_i |dy_i|  over all
struct Difference {
  double value, tolerance;
};
Difference difference(const Linearized& step, int input, int64_t element);

}  // namespace nacre::test

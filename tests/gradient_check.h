// Computes gradients by the table of an op (OpRule::gradients) and by central differences of its forward kernel.
//
// Both differentiate f, the sum over the outputs of y_i dy_i with random dy. A loss has no output, only the sum
// `loss` that it updates: there f = seed loss. The float64 kernels compute everything.
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

// A step whose gradient is checked. Real inputs are multiples of kGrid, so that x +- h is exact, and stay kClear away
// from kinks of the function.
struct GradientCase {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;  // updated operands too
  Rounding rounding = Rounding::kNone;
};

struct OpRow;  // op_rows.h

// Returns the first entry of the reference or training kernels whose inputs have the arrays' types and that has at
// least `outputs`.
const KernelEntry* find_kernel(Op op, Rounding rounding, const std::vector<Array>& inputs, size_t outputs = 0);

// A case after its forward run, with the data for its gradients.
struct Linearized {
  const OpRow* row = nullptr;
  const OpRule* rule = nullptr;
  const KernelEntry* entry = nullptr;
  GradientCase made;
  std::vector<Array> outputs;
  std::vector<Array> dy;  // of every output; absent where no row reads it
  Array seed;             // float32 [1]
  std::string why;        // why the step did not run or is not pure; else empty
};
Linearized linearize(const OpRow& row, const GradientCase& made, Random& random);

// A row of the op's gradient table, and the input whose gradient the row gives. For every input of a variadic op the
// rows are those of input 0.
struct Target {
  size_t row;
  int input;
};
std::vector<Target> targets(const Linearized& step);
bool has_target(const OpRule& rule, int input);

// A deliberate error, which the check must notice.
struct Mutation {
  enum Kind {
    kNone,
    kElement,   // one element of the gradient has the other sign
    kTerm,      // one element of dy, or the seed, has the other sign: one term
    kReversed,  // the elements of read `read` stand in reverse order
  } kind = kNone;
  int read = 0;
  size_t element = 0;
};

// The row's gradient step: its attributes, the operands that it reads, then the sum that it adds to.
struct GradientStep {
  const KernelEntry* entry = nullptr;  // float64
  std::vector<uint32_t> words;
  std::vector<Array> operands;
};
GradientStep gradient_step(const Linearized& step, const Target& target);

// The gradient that the step makes. `why` is not empty if there is no kernel or it does not run. `changed` says
// whether the mutation changed a bit.
struct TableGradient {
  Array value;
  std::string why;
  bool changed = false;
};
TableGradient table_gradient(const Linearized& step, const Target& target, const Mutation& mutation = {});

// df / dx_i of one element of an input, and a bound on the distance of the table's gradient:
//
//   D(h) = sum_i (y_i(x + h) - y_i(x - h)) dy_i / 2 h = f' + h^2 f''' / 6 + O(h^4)
//   truncation   |D(2h) - D(h)| = h^2 |f'''| / 2 + O(h^4), three times the error of D(h)
//   rounding     An output takes at most K = terms + 512 operations (512 for the functions in it) on magnitudes
//                of at most S = terms M^2 + max |y| + M, M = max(1, max |x|). So y_i is within u K S of its real
//                value, u being float64's unit roundoff.
//                D(h) is within u K S sum_i |dy_i| / h over the y_i that change. The gradient step makes sums of
//                this kind too, so it is within u K S sum_i |dy_i| over all.
struct Difference {
  double value, tolerance;
};
Difference difference(const Linearized& step, int input, int64_t element);

}  // namespace nacre::test

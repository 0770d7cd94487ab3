// Computes elementwise operators on constants, with numpy broadcast: y_i = f(a_i, b_i, ...).
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/importers/onnx/evaluator.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Integers = int64_t (*)(int64_t, int64_t);
using Reals = double (*)(double, double);

uint64_t bits(int64_t a) { return uint64_t(a); }

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = bits(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return int64_t(result);
}

// Returns the remainder with the sign of the divisor, as Python does. fmod gives the sign of the dividend, as C does.
int64_t python_mod(int64_t a, int64_t b) {
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double python_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <bool kMost>
double extreme(double a, double b) {  // NaN if either is NaN
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return kMost ? std::max(a, b) : std::min(a, b);
}

int64_t shifted_left(int64_t a, int64_t b) { return b >= 64 || b < 0 ? 0 : int64_t(bits(a) << b); }
int64_t shifted_right(int64_t a, int64_t b) { return b >= 64 || b < 0 ? 0 : int64_t(bits(a) >> b); }
int64_t shifted_with_sign(int64_t a, int64_t b) { return a >> (b >= 64 || b < 0 ? 63 : b); }

struct Pair {
  const char* op;
  Integers integer;
  Reals real;
  bool gives_bool = false;
};

constexpr Pair kPairs[] = {
    {"Add", [](int64_t a, int64_t b) { return int64_t(bits(a) + bits(b)); }, [](double a, double b) { return a + b; }},
    {"Sub", [](int64_t a, int64_t b) { return int64_t(bits(a) - bits(b)); }, [](double a, double b) { return a - b; }},
    {"Mul", [](int64_t a, int64_t b) { return int64_t(bits(a) * bits(b)); }, [](double a, double b) { return a * b; }},
    {"Div", [](int64_t a, int64_t b) { return b == -1 ? int64_t(0 - bits(a)) : a / b; },
     [](double a, double b) { return a / b; }},
    {"Mod", python_mod, python_mod},
    {"Pow", power, [](double a, double b) { return std::pow(a, b); }},
    {"Min", [](int64_t a, int64_t b) { return std::min(a, b); }, extreme<false>},
    {"Max", [](int64_t a, int64_t b) { return std::max(a, b); }, extreme<true>},
    {"Equal", [](int64_t a, int64_t b) { return int64_t{a == b}; }, [](double a, double b) { return double(a == b); },
     true},
    {"Less", [](int64_t a, int64_t b) { return int64_t{a < b}; }, [](double a, double b) { return double(a < b); },
     true},
    {"LessOrEqual", [](int64_t a, int64_t b) { return int64_t{a <= b}; },
     [](double a, double b) { return double(a <= b); }, true},
    {"Greater", [](int64_t a, int64_t b) { return int64_t{a > b}; }, [](double a, double b) { return double(a > b); },
     true},
    {"GreaterOrEqual", [](int64_t a, int64_t b) { return int64_t{a >= b}; },
     [](double a, double b) { return double(a >= b); }, true},
    {"And", [](int64_t a, int64_t b) { return int64_t{a != 0 && b != 0}; }, nullptr, true},
    {"Or", [](int64_t a, int64_t b) { return int64_t{a != 0 || b != 0}; }, nullptr, true},
    {"Xor", [](int64_t a, int64_t b) { return int64_t{(a != 0) != (b != 0)}; }, nullptr, true},
    {"BitwiseAnd", [](int64_t a, int64_t b) { return a & b; }, nullptr},
    {"BitwiseOr", [](int64_t a, int64_t b) { return a | b; }, nullptr},
    {"BitwiseXor", [](int64_t a, int64_t b) { return a ^ b; }, nullptr},
};
constexpr Pair kFmod = {"Mod", [](int64_t a, int64_t b) { return b == -1 ? int64_t{0} : a % b; },
                        [](double a, double b) { return std::fmod(a, b); }};

struct Single {
  const char* op;
  int64_t (*integer)(int64_t);
  double (*real)(double);
  bool gives_bool = false;
};

constexpr Single kSingles[] = {
    {"Neg", [](int64_t a) { return int64_t(0 - bits(a)); }, [](double a) { return -a; }},
    {"Abs", [](int64_t a) { return a < 0 ? int64_t(0 - bits(a)) : a; }, [](double a) { return std::fabs(a); }},
    {"Sign", [](int64_t a) { return int64_t{a > 0} - int64_t{a < 0}; },
     [](double a) { return std::isnan(a) ? a : double(a > 0) - double(a < 0); }},
    {"Not", [](int64_t a) { return int64_t{a == 0}; }, nullptr, true},
    {"BitwiseNot", [](int64_t a) { return ~a; }, nullptr},
    {"Relu", [](int64_t a) { return std::max<int64_t>(a, 0); },
     [](double a) { return std::isnan(a) || a > 0 ? a : 0; }},
    {"Floor", nullptr, [](double a) { return std::floor(a); }},
    {"Ceil", nullptr, [](double a) { return std::ceil(a); }},
    {"Round", nullptr, [](double a) { return std::nearbyint(a); }},  // half to even
    {"Sqrt", nullptr, [](double a) { return std::sqrt(a); }},
    {"Reciprocal", nullptr, [](double a) { return 1 / a; }},
    {"Exp", nullptr, [](double a) { return std::exp(a); }},
    {"Log", nullptr, [](double a) { return std::log(a); }},
    {"Erf", nullptr, [](double a) { return std::erf(a); }},
    {"Sigmoid", nullptr, [](double a) { return 1 / (1 + std::exp(-a)); }},
    {"Softplus", nullptr, [](double a) { return a > 0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a)); }},
    {"Softsign", nullptr, [](double a) { return a / (1 + std::fabs(a)); }},
    {"Sin", nullptr, [](double a) { return std::sin(a); }},
    {"Cos", nullptr, [](double a) { return std::cos(a); }},
    {"Tan", nullptr, [](double a) { return std::tan(a); }},
    {"Asin", nullptr, [](double a) { return std::asin(a); }},
    {"Acos", nullptr, [](double a) { return std::acos(a); }},
    {"Atan", nullptr, [](double a) { return std::atan(a); }},
    {"Sinh", nullptr, [](double a) { return std::sinh(a); }},
    {"Cosh", nullptr, [](double a) { return std::cosh(a); }},
    {"Tanh", nullptr, [](double a) { return std::tanh(a); }},
    {"Asinh", nullptr, [](double a) { return std::asinh(a); }},
    {"Acosh", nullptr, [](double a) { return std::acosh(a); }},
    {"Atanh", nullptr, [](double a) { return std::atanh(a); }},
    {"IsNaN", nullptr, [](double a) { return double(std::isnan(a)); }, true},
};

template <class Row, size_t kSize>
const Row& row_of(const Row (&table)[kSize], const Evaluation& e) {
  return *std::find_if(table, table + kSize, [&](const Row& row) { return e.source.proto.op_type() == row.op; });
}

// Returns strides that read x as if it were broadcast to `dims`. They are 0 along axes that x does not have or that
// have size 1 in x.
std::vector<int64_t> strides_in(const Tensor& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  const std::vector<int64_t> own = strides_of(x.dims);
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (x.dims[i] != 1) strides[dims.size() - x.dims.size() + i] = own[i];
  return strides;
}

std::vector<int64_t> common_dims(const Evaluation& e) {
  std::vector<int64_t> dims;
  for (int i = 0; i < e.count(); ++i) {
    const std::optional<std::vector<int64_t>> both = broadcast(dims, e.input(i).dims);
    if (!both) e.source.malformed("its operands have shapes that cannot be combined");
    dims = *both;
  }
  return dims;
}

Tensor spread(const Evaluation& e, const Tensor& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> from = e.places(dims);
  each_index(dims, strides_in(x, dims), [&](int64_t place) { from.push_back(place); });
  return e.taken(x, dims, from);
}

// Calls f(i, place in a, place in b) for every element i of `dims`.
template <class F>
void each_pair(const std::vector<int64_t>& dims, const Tensor& a, const Tensor& b, F f) {
  const std::vector<int64_t> step_a = strides_in(a, dims), step_b = strides_in(b, dims);
  std::vector<int64_t> index(dims.size());
  const int64_t count = product(dims);
  int64_t at_a = 0, at_b = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(size_t(i), size_t(at_a), size_t(at_b));
    for (size_t axis = dims.size(); axis-- > 0;) {
      at_a += step_a[axis], at_b += step_b[axis];
      if (++index[axis] < dims[axis]) break;
      at_a -= step_a[axis] * dims[axis], at_b -= step_b[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// Return whether two types fit each other, and the wider one. Two types of reals fit, because an importer's formula
// has float32 numbers beside those of the file.
bool fit(const Tensor& a, const Tensor& b) { return a.type == b.type || (!a.whole && !b.whole); }
ElementType wider(const Tensor& a, const Tensor& b) {
  return a.whole || a.type == b.type ? a.type : ElementType::kFloat64;
}

Tensor combined(const Evaluation& e, const Pair& row, const Tensor& a, const Tensor& b) {
  if (a.whole != b.whole || (a.whole ? row.integer == nullptr : row.real == nullptr)) e.refuse_types();
  const std::optional<std::vector<int64_t>> dims = broadcast(a.dims, b.dims);
  if (!dims) e.source.malformed("its operands have shapes that cannot be combined");
  Tensor y = e.make(row.gives_bool ? ElementType::kBool : wider(a, b), *dims);
  each_pair(*dims, a, b, [&](size_t i, size_t of_a, size_t of_b) {
    if (a.whole) y.integers[i] = wrapped(y.type, row.integer(a.integers[of_a], b.integers[of_b]));
    else if (y.whole) y.integers[i] = row.real(a.reals[of_a], b.reals[of_b]) != 0;
    else y.reals[i] = row.real(a.reals[of_a], b.reals[of_b]);
  });
  return y;
}

void evaluate_pair(const Evaluation& e) {
  const Tensor &a = e.input(0), &b = e.input(1);
  const std::string& op = e.source.proto.op_type();
  const bool divides = op == "Div" || op == "Mod";
  if (divides && std::ranges::find(b.integers, 0) != b.integers.end()) e.source.malformed("divides by zero");
  if (!fit(a, b)) e.refuse_types();
  e.give(combined(e, op == "Mod" && e.source.integer("fmod", 0) != 0 ? kFmod : row_of(kPairs, e), a, b));
}

int64_t whole_of(double x) {  // rounds towards 0 and saturates
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return x <= -0x1p63 ? std::numeric_limits<int64_t>::min() : int64_t(x);
}

// The result has the type of the base. The exponent may have another type.
void evaluate_pow(const Evaluation& e) {
  Tensor base = e.input(0), exponent = e.input(1);
  const ElementType type = base.type;
  if (base.whole && exponent.whole) return e.give(combined(e, row_of(kPairs, e), base, exponent));
  for (Tensor* x : {&base, &exponent}) {
    if (x->whole) x->reals.assign(x->integers.begin(), x->integers.end());
    x->whole = false;
    x->type = ElementType::kFloat64;
  }
  const Tensor y = combined(e, row_of(kPairs, e), base, exponent);
  Tensor result = e.make(type, y.dims);
  for (size_t i = 0; i < y.size(); ++i) {
    if (result.whole) result.integers[i] = whole_of(y.reals[i]);
    else result.reals[i] = y.reals[i];
  }
  e.give(std::move(result));
}

// Computes Min, Max, Sum and Mean for any number of operands.
void several(const Evaluation& e) {
  const std::string& op = e.source.proto.op_type();
  const bool adds = op == "Sum" || op == "Mean";
  Tensor y = e.input(0);
  for (int i = 1; i < e.count(); ++i) {
    if (!fit(e.input(i), y)) e.refuse_types();
    y = combined(e, adds ? kPairs[0] : row_of(kPairs, e), y, e.input(i));
  }
  if (op == "Mean")
    for (double& number : y.reals) number /= e.count();
  e.give(std::move(y));
}

void shift(const Evaluation& e) {
  const Tensor &a = e.input(0), &b = e.input(1);
  const std::string direction = e.source.text("direction", "");
  if (!a.whole || a.type != b.type) e.refuse_types();
  if (direction != "LEFT" && direction != "RIGHT") e.source.malformed("direction is " + direction);
  const Integers right = e.source.opset >= 28 ? shifted_with_sign : shifted_right;
  e.give(combined(e, {"", direction == "LEFT" ? shifted_left : right, nullptr}, a, b));
}

void evaluate_single(const Evaluation& e) {
  const Single& row = row_of(kSingles, e);
  const Tensor& x = e.input(0);
  if (x.whole ? row.integer == nullptr : row.real == nullptr) e.refuse_types();
  Tensor y = e.make(row.gives_bool ? ElementType::kBool : x.type, x.dims);
  for (size_t i = 0; i < y.size(); ++i) {
    if (x.whole) y.integers[i] = row.integer(x.integers[i]);
    else if (y.whole) y.integers[i] = row.real(x.reals[i]) != 0;
    else y.reals[i] = row.real(x.reals[i]);
  }
  e.give(std::move(y));
}

void is_infinite(const Evaluation& e) {
  const Tensor& x = e.input(0);
  if (x.whole) e.refuse_types();
  const bool positive = e.source.integer("detect_positive", 1) != 0;
  const bool negative = e.source.integer("detect_negative", 1) != 0;
  Tensor y = e.make(ElementType::kBool, x.dims);
  for (size_t i = 0; i < y.size(); ++i)
    y.integers[i] = std::isinf(x.reals[i]) && (x.reals[i] > 0 ? positive : negative);
  e.give(std::move(y));
}

void evaluate_where(const Evaluation& e) {
  const Tensor &a = e.input(1), &b = e.input(2);
  if (!e.input(0).whole || !fit(a, b)) e.refuse_types();
  const std::vector<int64_t> dims = common_dims(e);
  const Tensor c = spread(e, e.input(0), dims), z = spread(e, b, dims);
  Tensor y = spread(e, a, dims);
  y.type = wider(a, b);
  for (size_t i = 0; i < y.size(); ++i) {
    if (c.integers[i] != 0) continue;
    if (y.whole) y.integers[i] = z.integers[i];
    else y.reals[i] = z.reals[i];
  }
  e.give(std::move(y));
}

// y = min(max(x, low), high)
void evaluate_clip(const Evaluation& e) {
  Tensor y = e.input(0);
  e.spend(y.size());
  const auto bound = [&](int index, const char* key, double otherwise) {
    Tensor b;
    b.type = y.type, b.whole = y.whole;
    b.integers = {otherwise < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max()};
    b.reals = {double(e.source.real(key, float(otherwise)))};
    if (!e.has(index)) return b;
    if (e.input(index).size() != 1 || !fit(e.input(index), y)) e.refuse_types();
    return e.input(index);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor low = bound(1, "min", -infinity), high = bound(2, "max", infinity);
  for (int64_t& number : y.integers) number = std::min(std::max(number, low.integers[0]), high.integers[0]);
  for (double& number : y.reals) number = extreme<false>(extreme<true>(number, low.reals[0]), high.reals[0]);
  e.give(std::move(y));
}

constexpr Evaluator kPointwiseEvaluators[] = {
    {"Add", evaluate_pair},
    {"Sub", evaluate_pair},
    {"Mul", evaluate_pair},
    {"Div", evaluate_pair},
    {"Mod", evaluate_pair},
    {"Pow", evaluate_pow},
    {"Equal", evaluate_pair},
    {"Less", evaluate_pair},
    {"LessOrEqual", evaluate_pair},
    {"Greater", evaluate_pair},
    {"GreaterOrEqual", evaluate_pair},
    {"And", evaluate_pair},
    {"Or", evaluate_pair},
    {"Xor", evaluate_pair},
    {"BitwiseAnd", evaluate_pair},
    {"BitwiseOr", evaluate_pair},
    {"BitwiseXor", evaluate_pair},
    {"Min", several},
    {"Max", several},
    {"Sum", several},
    {"Mean", several},
    {"BitShift", shift},
    {"IsInf", is_infinite},
    {"Where", evaluate_where},
    {"Clip", evaluate_clip},
    {"Neg", evaluate_single},
    {"Abs", evaluate_single},
    {"Sign", evaluate_single},
    {"Not", evaluate_single},
    {"BitwiseNot", evaluate_single},
    {"Relu", evaluate_single},
    {"Floor", evaluate_single},
    {"Ceil", evaluate_single},
    {"Round", evaluate_single},
    {"Sqrt", evaluate_single},
    {"Reciprocal", evaluate_single},
    {"Exp", evaluate_single},
    {"Log", evaluate_single},
    {"Erf", evaluate_single},
    {"Sigmoid", evaluate_single},
    {"Softplus", evaluate_single},
    {"Softsign", evaluate_single},
    {"Sin", evaluate_single},
    {"Cos", evaluate_single},
    {"Tan", evaluate_single},
    {"Asin", evaluate_single},
    {"Acos", evaluate_single},
    {"Atan", evaluate_single},
    {"Sinh", evaluate_single},
    {"Cosh", evaluate_single},
    {"Tanh", evaluate_single},
    {"Asinh", evaluate_single},
    {"Acosh", evaluate_single},
    {"Atanh", evaluate_single},
    {"IsNaN", evaluate_single},
};

}  // namespace

std::span<const Evaluator> pointwise_evaluators() { return kPointwiseEvaluators; }

}  // namespace nacre::tools::onnx_import

// Writes linear models and support vector machines of ai.onnx.ml as formulas.
//
// Scores and labels follow onnxruntime's core/providers/cpu/ml/linearclassifier.cc, svmclassifier.cc and
// svmregressor.cc.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/importers/ml/classes.h"
#include "tools/importers/ml/trees.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

// Returns x w^T + b;  x [rows, features], w [outputs, features], b [outputs] or empty
Term linear(Formula& f, const Source& source, const Term& x, int64_t features, const std::vector<float>& w,
            const std::vector<float>& b) {
  const int64_t outputs = features > 0 ? int64_t(w.size()) / features : 0;
  if (outputs < 1 || outputs * features != int64_t(w.size()))
    source.malformed("has " + std::to_string(w.size()) + " coefficients for " + std::to_string(features) + " features");
  if (!b.empty() && int64_t(b.size()) != outputs)
    source.malformed("has " + std::to_string(b.size()) + " intercepts for " + std::to_string(outputs) + " outputs");
  std::vector<Term> operands = {x, f.numbers({outputs, features}, w)};
  if (!b.empty()) operands.push_back(f.numbers({outputs}, b));
  return f("Gemm", operands, {{"transB", int64_t{1}}});
}

// Computes x w^T + b as (x, 1) (w, b)^T, which adds b last. A sum that begins with b would round each product at the
// size of b. This loses digits if the products cancel or are small beside b.
Term linear_then_bias(Formula& f, const Source& source, const Term& x, int64_t features, const std::vector<float>& w,
                      const std::vector<float>& b) {
  const auto outputs = int64_t(b.size());
  if (outputs < 1 || outputs * features != int64_t(w.size())) return linear(f, source, x, features, w, b);  // refused
  std::vector<float> rows;
  for (int64_t y = 0; y < outputs; ++y) {
    rows.insert(rows.end(), w.begin() + y * features, w.begin() + (y + 1) * features);
    rows.push_back(b[size_t(y)]);
  }
  return linear(f, source, f("Pad", {x, f.list({0, 0, 0, 1}), f.number(1)}), features + 1, rows, {});
}

void linear_regressor(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  const int64_t targets = source.integer("targets", 1);
  const std::vector<float> w = listed_floats(source, "coefficients");
  if (targets < 1 || int64_t(w.size()) != targets * x->dims[1]) source.malformed("its coefficients do not fit");
  const std::string transform = source.text("post_transform", "NONE");
  if (targets == 1 && transform != "NONE" && transform != "PROBIT")
    source.refuse("post_transform " + transform + " of one output, which is applied by some readers only");
  Formula f(import, source);
  const Term y = linear(f, source, f.value(x), x->dims[1], w, listed_floats(source, "intercepts"));
  f.give(transformed(f, source, y, transform));
  f.run();
}

void linear_classifier(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  const Classes classes = read_classes(source, "classlabels_ints", "classlabels_strings");
  const std::vector<float> w = listed_floats(source, "coefficients");
  const auto count = int64_t(classes.count());
  if (count < 2 || int64_t(w.size()) != count * x->dims[1])
    source.refuse("has not one row of coefficients for each of its classes, which has several readings",
                  "export it with coefficients of every class");
  list_names(import, source, classes.names);
  Formula f(import, source);
  const Term scores = linear(f, source, f.value(x), x->dims[1], w, listed_floats(source, "intercepts"));
  f.give(label_of_largest(f, source, classes, scores));
  f.give(transformed(f, source, scores, source.text("post_transform", "NONE")));
  f.run();
}

// Returns x^degree. A whole degree from 1 to 16 is written as products, as libsvm's powi does.
Term power(Formula& f, Term x, float degree) {
  constexpr float kMostProducts = 16;
  if (degree != std::floor(degree) || degree < 1 || degree > kMostProducts) return f("Pow", {x, f.number(degree)});
  Term y;
  for (int rest = int(degree); rest > 0; rest /= 2) {
    if (rest % 2 == 1) y = y.empty() ? x : f("Mul", {y, x});
    if (rest > 1) x = f("Mul", {x, x});
  }
  return y;
}

// Permutes the rows of the matrix `numbers`; if `columns` is true, its columns. Row or column i of the result is
// order[i] of `numbers`.
std::vector<float> in_order(const std::vector<float>& numbers, const std::vector<size_t>& order, bool columns) {
  std::vector<float> y(numbers.size());
  const size_t other = numbers.size() / order.size();
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = 0; j < other; ++j)
      columns ? y[j * order.size() + i] = numbers[j * order.size() + order[i]]
              : y[i * other + j] = numbers[order[i] * other + j];
  return y;
}

// Returns an order of the support vectors that spreads each group evenly. The coefficients of a group have one sign,
// and the terms of all groups nearly cancel. In the order of the groups the sum would first grow far beyond its final
// value and lose digits.
std::vector<size_t> in_turn(const std::vector<size_t>& group, size_t groups) {
  std::vector<double> of(groups, 0), turn(group.size());
  for (const size_t g : group) of[g] += 1;
  std::vector<double> seen(groups, 0);
  for (size_t i = 0; i < group.size(); ++i) turn[i] = (seen[group[i]]++ + 0.5) / of[group[i]];
  std::vector<size_t> order(group.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return turn[i] < turn[j]; });
  return order;
}

// Returns the kernel values of rows x with the support vectors v, [rows, vectors]:
//
//   POLY  (gamma x v + c)^degree      SIGMOID  tanh(gamma x v + c)      RBF  exp(-gamma |x - v|^2)
//
// The distance is summed from the differences. The sum x^2 - 2 x v + v^2 would lose it to rounding if x is near v.
Term kernel(Formula& f, const Source& source, const OperandPtr& x, const std::string& type,
            const std::vector<float>& vectors) {
  const int64_t features = x->dims[1], count = int64_t(vectors.size()) / features;
  std::vector<float> parameters = listed_floats(source, "kernel_params");
  parameters.resize(3, 0);
  const float gamma = parameters[0], c = parameters[1];
  if (type == "RBF") {
    const Term row = f("Unsqueeze", {f.value(x), f.list({1})});
    const Term apart = f("Sub", {row, f.numbers({1, count, features}, vectors)});
    return f("Exp", {f("Neg", {f("Mul", {f.reduce("ReduceSumSquare", apart, {2}, false), f.number(gamma)})})});
  }
  std::vector<float> scaled(vectors.size());
  std::transform(vectors.begin(), vectors.end(), scaled.begin(), [gamma](float v) { return gamma * v; });
  const Term affine = linear_then_bias(f, source, f.value(x), features, scaled, std::vector<float>(size_t(count), c));
  if (type == "POLY") return power(f, affine, parameters[2]);
  if (type == "SIGMOID") return f("Tanh", {affine});
  source.malformed("kernel_type " + type + " is none");
}

// Returns w v;  w [outputs, vectors], v [vectors, features]
std::vector<float> product(const std::vector<float>& w, const std::vector<float>& v, size_t features) {
  const size_t vectors = v.size() / features, outputs = w.size() / vectors;
  std::vector<float> y(outputs * features);
  for (size_t o = 0; o < outputs; ++o)
    for (size_t j = 0; j < features; ++j) {
      double sum = 0;
      for (size_t i = 0; i < vectors; ++i) sum += double(w[o * vectors + i]) * double(v[i * features + j]);
      y[o * features + j] = float(sum);
    }
  return y;
}

// Returns w k(x) + rho;  w [outputs, vectors], rho [outputs], k(x) the kernel values of x with the support vectors v.
// `group` holds the group of each vector; the coefficients of a group have one sign. For LINEAR, k(x) = v x, so the
// result is (w v) x + rho and no vector is stored.
Term weighed_kernel(Import& import, Formula& f, const Source& source, const OperandPtr& x, const std::vector<float>& w,
                    const std::vector<float>& rho, const std::vector<size_t>& group, size_t groups) {
  const std::string type = source.text("kernel_type", "LINEAR");
  const std::vector<float> vectors = listed_floats(source, "support_vectors");
  const int64_t features = x->dims[1];
  if (group.empty() || vectors.size() != group.size() * size_t(features))
    source.malformed("its support vectors have not as many numbers as its input has features");
  if (type == "LINEAR") {
    import.spend(uint64_t(w.size()) * uint64_t(features));
    return linear(f, source, f.value(x), features, product(w, vectors, size_t(features)), rho);
  }
  const std::vector<size_t> order = in_turn(group, groups);
  const Term seen = kernel(f, source, x, type, in_order(vectors, order, false));
  return linear_then_bias(f, source, seen, int64_t(order.size()), in_order(w, order, true), rho);
}

void svm_regressor(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  const std::vector<float> w = listed_floats(source, "coefficients"), rho = listed_floats(source, "rho");
  if (rho.size() != 1) source.malformed("its rho is not one number");
  if (source.text("post_transform", "NONE") != "NONE") source.refuse("has a post_transform");
  Formula f(import, source);
  const bool vectors = source.integer("n_supports", 0) > 0;
  const int64_t count = vectors ? source.integer("n_supports", 0) : x->dims[1];
  if (int64_t(w.size()) != count) source.malformed("its coefficients are not as many as what they weigh");
  std::vector<size_t> sign;
  for (const float c : w) sign.push_back(c > 0);
  const Term y =
      vectors ? weighed_kernel(import, f, source, x, w, rho, sign, 2) : linear(f, source, f.value(x), count, w, rho);
  const bool one_class = source.integer("one_class", 0) != 0;
  f.give(one_class ? f("Where", {f("Greater", {y, f.number(0)}), f.number(1), f.number(-1)}) : y);
  f.run();
}

// All pairs of classes i < j, in the order of the scores. Each pair has one score.
struct Pairs {
  explicit Pairs(int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = i + 1; j < count; ++j) all.emplace_back(i, j);
  }
  std::vector<std::pair<int64_t, int64_t>> all;
};

// Returns the weights of the pairs' scores, [pairs, vectors]. In the row of the pair (i, j), the vectors of class i
// get numbers of row j - 1 of the coefficients, those of class j numbers of row i, and vectors of other classes 0.
std::vector<float> pair_weights(const Source& source, const Pairs& pairs, const Ints& per_class,
                                const std::vector<float>& coefficients) {
  int64_t vectors = 0;
  Ints first;
  for (const int64_t count : per_class) {
    if (count < 0 || count > int64_t(coefficients.size())) source.malformed("vectors_per_class: a count is outside");
    first.push_back(vectors);
    vectors += count;
  }
  if (int64_t(coefficients.size()) != vectors * (int64_t(per_class.size()) - 1))
    source.malformed("its coefficients do not fit its support vectors");
  std::vector<float> weights(pairs.all.size() * size_t(vectors), 0);
  for (size_t p = 0; p < pairs.all.size(); ++p) {
    const auto copy = [&](int64_t of, int64_t row) {
      const auto from = coefficients.begin() + row * vectors + first[size_t(of)];
      std::copy(from, from + per_class[size_t(of)], weights.begin() + int64_t(p) * vectors + first[size_t(of)]);
    };
    copy(pairs.all[p].first, pairs.all[p].second - 1);
    copy(pairs.all[p].second, pairs.all[p].first);
  }
  return weights;
}

// Returns the votes of each class. The pair (i, j) votes for i if its score is above 0, else for j.
//
//   votes_c = sum_p [i_p = c] h_p + [j_p = c] (1 - h_p),   h_p = 1 if the score s_p of pair p is above 0, else 0
Term vote(Formula& f, const Source& source, const Term& scores, const Pairs& pairs, int64_t count) {
  std::vector<float> w(size_t(count) * pairs.all.size(), 0), b(size_t(count), 0);
  for (size_t p = 0; p < pairs.all.size(); ++p) {
    w[size_t(pairs.all[p].first) * pairs.all.size() + p] += 1;
    w[size_t(pairs.all[p].second) * pairs.all.size() + p] -= 1;
    b[size_t(pairs.all[p].second)] += 1;
  }
  const Term won = f.to_real(f("Greater", {scores, f.number(0)}));
  return linear(f, source, won, int64_t(pairs.all.size()), w, b);
}

void check_classifier(const Source& source, const Classes& classes, const Ints& per_class) {
  constexpr int64_t kMostClasses = 1024;  // gives half a million pairs
  const auto count = int64_t(classes.count());
  if (count < 2 || count > kMostClasses) source.refuse("has " + std::to_string(count) + " classes");
  if (per_class.size() != classes.count())
    source.refuse("has no support vectors of each class", "export it as a linear classifier");
}

// Computes the probabilities p of the classes from those of the pairs, r_ij, the probability of i if the class is i
// or j (T.-F. Wu, C.-J. Lin, R. C. Weng, JMLR 5, 2004, algorithm 2; libsvm, multiclass_probability). p minimizes p Q
// p, and the sum of p is 1:
//
//   Q_tt = sum_j r_jt^2,   Q_tj = -r_jt r_tj
//
// libsvm stops as soon as |(Q p)_t - p Q p| is below 0.005 / classes for every t. The formula has 6 rounds and keeps
// p from there on, because a more exact p would differ from libsvm's. A trial with random r, and r of 1e-7 and 1 -
// 1e-7, needed at most 4 rounds (2 to 16 classes).
class PairProbabilities {
 public:
  PairProbabilities(Formula& f, const Pairs& pairs, int64_t rows, int64_t classes)
      : f_(f), pairs_(pairs), rows_(rows), classes_(classes) {}

  // Returns the probabilities for r_ij = 1 / (1 + exp v_ij), v [rows, pairs].
  Term of(const Term& v) {
    const Term r = matrix(v), turned = f_.transpose(r, {0, 2, 1});
    const Term other = f_("Neg", {f_("Mul", {r, turned})});
    diagonal_ = f_.reduce("ReduceSumSquare", r, {1}, false);
    q_ = f_("Add", {other, f_("Mul", {f_("Unsqueeze", {diagonal_, f_.list({1})}), identity()})});
    Term p = f_("Add", {f_("Mul", {diagonal_, f_.number(0)}), f_.number(1 / float(classes_))});
    constexpr int kRounds = 6;
    for (int round = 0; round < kRounds; ++round) p = refined(p);
    return p;
  }

 private:
  // Returns r [rows, classes, classes], which is 0 if i = j. r_ij and r_ji = 1 - r_ij come from the pair (i, j).
  Term matrix(const Term& v) {
    const auto count = int64_t(pairs_.all.size());
    const Term both = f_("Sigmoid", {f_("Concat", {f_("Neg", {v}), v}, {{"axis", int64_t{1}}})});
    const Term r = f_("Clip", {both, f_.number(1e-7f), f_.number(1 - 1e-7f)});
    std::vector<float> places(size_t(classes_ * classes_ * 2 * count), 0);
    const auto put = [&](int64_t i, int64_t j, int64_t from) {
      places[size_t((i * classes_ + j) * 2 * count + from)] = 1;
    };
    for (int64_t p = 0; p < count; ++p) {
      put(pairs_.all[size_t(p)].first, pairs_.all[size_t(p)].second, p);
      put(pairs_.all[size_t(p)].second, pairs_.all[size_t(p)].first, count + p);
    }
    const Term placed = f_("Gemm", {r, f_.numbers({classes_ * classes_, 2 * count}, places)}, {{"transB", int64_t{1}}});
    return f_.reshape(placed, {rows_, classes_, classes_});
  }

  Term identity() {
    std::vector<float> ones(size_t(classes_ * classes_), 0);
    for (int64_t i = 0; i < classes_; ++i) ones[size_t(i * classes_ + i)] = 1;
    return f_.numbers({1, classes_, classes_}, ones);
  }

  Term at(const Term& x, int64_t t) { return f_.slice(x, 1, t, t + 1); }

  // Does one round, which updates one p_t after the other. Returns p unchanged if it is near enough.
  Term refined(const Term& before) {
    Term p = before;
    Term qp = f_.reduce("ReduceSum", f_("Mul", {q_, f_("Unsqueeze", {p, f_.list({1})})}), {2}, false);
    Term pqp = f_.reduce("ReduceSum", f_("Mul", {p, qp}), {1});
    const Term error = f_.reduce("ReduceMax", f_("Abs", {f_("Sub", {qp, pqp})}), {1});
    const Term far = f_("GreaterOrEqual", {error, f_.number(0.005f / float(classes_))});
    for (int64_t t = 0; t < classes_; ++t) {
      const Term q = at(qp, t), tt = at(diagonal_, t);
      const Term d = f_("Div", {f_("Sub", {pqp, q}), tt}), scale = f_("Add", {d, f_.number(1)});
      std::vector<float> here(size_t(classes_), 0);
      here[size_t(t)] = 1;
      p = f_("Div", {f_("Add", {p, f_("Mul", {d, f_.numbers({1, classes_}, here)})}), scale});
      const Term more = f_("Add", {f_("Mul", {d, tt}), f_("Mul", {q, f_.number(2)})});
      pqp = f_("Div", {f_("Div", {f_("Add", {pqp, f_("Mul", {d, more})}), scale}), scale});
      const Term row = f_("Squeeze", {at(q_, t), f_.list({1})});
      qp = f_("Div", {f_("Add", {qp, f_("Mul", {d, row})}), scale});
    }
    return f_("Where", {far, p, before});
  }

  Formula& f_;
  const Pairs& pairs_;
  const int64_t rows_, classes_;
  Term q_, diagonal_;
};

Term probabilities(Formula& f, const Source& source, const Term& scores, const Pairs& pairs, int64_t rows,
                   int64_t count) {
  constexpr int64_t kMostClasses = 16;  // a round adds about 20 operators for each class
  const std::vector<float> a = listed_floats(source, "prob_a"), b = listed_floats(source, "prob_b");
  if (a.size() != pairs.all.size() || b.size() != a.size())
    source.malformed("its prob_a or prob_b has not a number for each pair of classes");
  if (count > kMostClasses) source.refuse("gives probabilities of more than 16 classes");
  if (source.text("post_transform", "NONE") != "NONE") source.refuse("has a post_transform of probabilities");
  const auto row = [&](const std::vector<float>& numbers) { return f.numbers({1, int64_t(a.size())}, numbers); };
  const Term v = f("Add", {f("Mul", {scores, row(a)}), row(b)});
  return PairProbabilities(f, pairs, rows, count).of(v);
}

// Returns the scores after the post_transform. Two classes have one score s and get (-s, s), without a
// post_transform.
Term given_scores(Formula& f, const Source& source, const Term& scores, int64_t count) {
  const std::string transform = source.text("post_transform", "NONE");
  if (count > 2) return transformed(f, source, scores, transform);
  if (transform != "NONE") source.refuse("post_transform " + transform + " of two classes, which has two readings");
  return f("Concat", {f("Neg", {scores}), scores}, {{"axis", int64_t{1}}});
}

void svm_classifier(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  const Classes classes = read_classes(source, "classlabels_ints", "classlabels_strings");
  const Ints per_class = source.integers("vectors_per_class");
  check_classifier(source, classes, per_class);
  const auto count = int64_t(classes.count());
  const Pairs pairs(count);
  const std::vector<float> coefficients = listed_floats(source, "coefficients"), rho = listed_floats(source, "rho");
  if (rho.size() != pairs.all.size()) source.malformed("its rho has not a number for each pair of classes");
  import.spend(uint64_t(pairs.all.size()) * coefficients.size() / (per_class.size() - 1) * sizeof(float));
  const std::vector<float> weights = pair_weights(source, pairs, per_class, coefficients);
  list_names(import, source, classes.names);
  Formula f(import, source);
  std::vector<size_t> group;
  for (size_t c = 0; c < per_class.size(); ++c) group.insert(group.end(), size_t(per_class[c]), c);
  const Term scores = weighed_kernel(import, f, source, x, weights, rho, group, per_class.size());
  f.give(label_of_largest(f, source, classes, vote(f, source, scores, pairs, count)));
  f.give(source.has("prob_a") ? probabilities(f, source, scores, pairs, x->dims[0], count)
                              : given_scores(f, source, scores, count));
  f.run();
}

constexpr OperatorImporter kSvmImporters[] = {{"LinearClassifier", linear_classifier, kMl},
                                              {"LinearRegressor", linear_regressor, kMl},
                                              {"SVMClassifier", svm_classifier, kMl},
                                              {"SVMRegressor", svm_regressor, kMl}};

}  // namespace

std::span<const OperatorImporter> ml_svm_importers() { return kSvmImporters; }

}  // namespace nacre::tools::onnx_import

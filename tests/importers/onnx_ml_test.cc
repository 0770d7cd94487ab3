// Tests import_onnx on scikit-learn's operators, which become others, with numbers that can be followed by hand.
// tests/peers/ml_operators.py compares with onnxruntime; results/ml_models.txt compares whole pipelines with
// scikit-learn.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

OnnxBuilder learned(const Dims& x, int type = TensorProto::FLOAT) {
  OnnxBuilder b;
  ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
  import.set_domain("ai.onnx.ml");
  import.set_version(2);
  b.input("x", x, {}, type);
  b.output("y");
  return b;
}

OnnxNode learned_node(OnnxBuilder& b, const std::string& op, const std::vector<std::string>& more = {}) {
  std::vector<std::string> inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  OnnxNode node = b.node(op, inputs, {"y"});
  node.domain("ai.onnx.ml");
  return node;
}

using Floats = std::vector<float>;

TEST(onnx_ml, features_are_scaled_and_cut) {
  OnnxBuilder scaler = learned({1, 2}), unit = learned({2, 2}), cut = learned({1, 3});
  learned_node(scaler, "Scaler").floats("offset", {1, 2}).floats("scale", {0.5f, 4});
  EXPECT_EQ(reals(run_converted<float>(scaler, {3, 3})), (Floats{1, 4}));
  learned_node(unit, "Normalizer").text("norm", "L2");
  EXPECT_EQ(reals(run_converted<float>(unit, {3, -4, 0, 0})), (Floats{0.6f, -0.8f, 0, 0}));
  learned_node(cut, "Binarizer").real("threshold", 0.5f);
  EXPECT_EQ(reals(run_converted<float>(cut, {0.5f, 0.75f, -1})), (Floats{0, 1, 0}));
}

TEST(onnx_ml, what_is_missing_is_filled_in) {
  OnnxBuilder b = learned({2, 2}), whole = learned({1, 3}, TensorProto::INT64);
  learned_node(b, "Imputer").floats("imputed_value_floats", {7, 8}).real("replaced_value_float", NAN);
  EXPECT_EQ(reals(run_converted<float>(b, {NAN, 1, 2, NAN})), (Floats{7, 1, 2, 8}));
  learned_node(whole, "Imputer").ints("imputed_value_int64s", {5}).integer("replaced_value_int64", -1);
  EXPECT_EQ(integers(run_converted<int64_t>(whole, {-1, 3, -1})), (std::vector<int64_t>{5, 3, 5}));
}

TEST(onnx_ml, categories_are_places) {
  OnnxBuilder b = learned({2}, TensorProto::INT64);
  learned_node(b, "OneHotEncoder").ints("cats_int64s", {4, 9, 6});
  const Value y = run_converted<int64_t>(b, {9, 5});
  EXPECT_EQ(y.dims, (Dims{2, 3}));
  EXPECT_EQ(reals(y), (Floats{0, 1, 0, 0, 0, 0}));
  OnnxBuilder strings = learned({2}, TensorProto::INT64);
  learned_node(strings, "OneHotEncoder").texts("cats_strings", {"a", "b"});
  EXPECT_NE(refusal(strings).find("encodes strings, which no tensor holds"), std::string::npos);
}

TEST(onnx_ml, labels_are_looked_up) {
  OnnxBuilder b = learned({4}, TensorProto::INT64), names = learned({3}, TensorProto::INT64);
  learned_node(b, "LabelEncoder")
      .ints("keys_int64s", {1, 2, 1})
      .ints("values_int64s", {10, -20, 30})
      .integer("default_int64", 7);
  EXPECT_EQ(integers(run_converted<int64_t>(b, {2, 1, 0, 2})), (std::vector<int64_t>{-20, 10, 7, -20}));
  learned_node(names, "LabelEncoder")
      .ints("keys_int64s", {5, 6})
      .texts("values_strings", {"b", "a"})
      .text("default_string", "?");
  EXPECT_EQ(integers(run_converted<int64_t>(names, {6, 5, 1})), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(converted(names).metadata.at(0).second, "b\na\n?\n");
}

TEST(onnx_ml, columns_are_taken_and_joined) {
  OnnxBuilder taken = learned({2, 3}), table = learned({3}, TensorProto::INT64), joined = learned({1, 3});
  taken.integers("i", {1, 2}, {2, 0});
  learned_node(taken, "ArrayFeatureExtractor", {"i"});
  EXPECT_EQ(reals(run_converted<float>(taken, {1, 2, 3, 4, 5, 6})), (Floats{3, 1, 6, 4}));
  table.integers("labels", {3}, {50, 70, 90});
  table.node("ArrayFeatureExtractor", {"labels", "x"}, {"y"}).domain("ai.onnx.ml");
  const Value y = run_converted<int64_t>(table, {2, 0, 1});
  EXPECT_EQ(y.dims, (Dims{1, 3}));
  EXPECT_EQ(integers(y), (std::vector<int64_t>{90, 50, 70}));
  learned_node(joined, "FeatureVectorizer", {"x"}).ints("inputdimensions", {2, 4});
  EXPECT_EQ(reals(run_converted<float>(joined, {1, 2, 3})), (Floats{1, 2, 1, 2, 3, 0}));
}

TEST(onnx_ml, stored_names_are_numbered) {
  OnnxBuilder b = learned({2}, TensorProto::INT64), other = learned({2}, TensorProto::INT64);
  for (OnnxBuilder* file : {&b, &other}) {
    ::onnx::TensorProto& names = *file->model().mutable_graph()->add_initializer();
    names.set_name("names");
    names.set_data_type(TensorProto::STRING);
    names.add_dims(2);
    names.add_string_data("left");
    names.add_string_data("right");
  }
  b.node("ArrayFeatureExtractor", {"names", "x"}, {"y"}).domain("ai.onnx.ml");
  EXPECT_EQ(integers(run_converted<int64_t>(b, {1, 0})), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(converted(b).metadata.at(0).second, "left\nright\n");
  other.node("Gather", {"names", "x"}, {"y"});
  EXPECT_NE(refusal(other).find("works on strings, which no tensor holds"), std::string::npos);
  b.model().mutable_graph()->mutable_initializer(0)->set_dims(0, 3);
  EXPECT_NE(refusal(b).find("names: has 2 strings, its shape needs"), std::string::npos);
}

TEST(onnx_ml, support_vectors_vote) {
  OnnxBuilder b = learned({3, 1});
  OnnxNode node = b.node("SVMClassifier", {"x"}, {"y", "scores"});
  node.domain("ai.onnx.ml")
      .text("kernel_type", "LINEAR")
      .floats("support_vectors", {1, 1, 1})
      .ints("vectors_per_class", {1, 1, 1});
  node.ints("classlabels_ints", {3, 5, 9}).floats("rho", {0, -1, 2});
  node.floats("coefficients", {1, 2, 3, 4, 5, 6});  // rows of two classes: [2, 3]
  // s_01 = (1 + 2) x, s_02 = (4 + 3) x - 1, s_12 = (5 + 6) x + 2
  EXPECT_EQ(integers(run_converted<float>(b, {1, -1, -0.1f})), (std::vector<int64_t>{3, 9, 5}));
}

// A polynomial kernel of degree 5 gives rho + the sum over v of c_v (x v / 2 + 1)^5. Degree 2.5 is no integer.
TEST(onnx_ml, a_polynomial_of_a_whole_degree_is_products) {
  for (const float degree : {5.0f, 2.5f}) {
    OnnxBuilder b = learned({3, 1});
    b.node("SVMRegressor", {"x"}, {"y"})
        .domain("ai.onnx.ml")
        .text("kernel_type", "POLY")
        .floats("kernel_params", {0.5f, 1, degree})
        .floats("support_vectors", {1, 3})
        .floats("coefficients", {2, -0.25f})
        .floats("rho", {0.125f})
        .integer("n_supports", 2);
    const Graph graph = converted(b);
    const auto powers = std::ranges::count_if(graph.nodes, [](const Node& node) {
      return node.op == Op::kBinary && get_integer(node, "function") == Binary::kPow;
    });
    EXPECT_EQ(powers, degree == 5 ? 0 : 1);
    const std::vector<float> x = {2, 0.5f, 0.25f}, y = reals(run_converted(b, x));
    for (size_t i = 0; i < x.size(); ++i) {
      const double first = std::pow(x[i] / 2.0 + 1, degree), second = std::pow(1.5 * x[i] + 1, degree);
      EXPECT_NEAR(y[i], 2 * first - second / 4 + 0.125, 1e-6 * second) << degree;
    }
  }
}

// Returns the class probabilities that libsvm's multiclass_probability computes, in float64.
std::vector<double> pair_probabilities(std::vector<std::vector<double>> r) {
  const size_t k = r.size();
  std::vector<std::vector<double>> q(k, std::vector<double>(k, 0));
  std::vector<double> p(k, 1.0 / double(k)), qp(k);
  for (size_t t = 0; t < k; ++t)
    for (size_t j = 0; j < k; ++j)
      if (j != t) q[t][t] += r[j][t] * r[j][t], q[t][j] = -r[j][t] * r[t][j];
  for (int round = 0; round < 100; ++round) {
    double pqp = 0, error = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < k; ++j) qp[t] += q[t][j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (size_t t = 0; t < k; ++t) error = std::max(error, std::fabs(qp[t] - pqp));
    if (error < 0.005 / double(k)) break;
    for (size_t t = 0; t < k; ++t) {
      const double d = (pqp - qp[t]) / q[t][t];
      p[t] += d;
      pqp = (pqp + d * (d * q[t][t] + 2 * qp[t])) / (1 + d) / (1 + d);
      for (size_t j = 0; j < k; ++j) qp[j] = (qp[j] + d * q[t][j]) / (1 + d), p[j] /= 1 + d;
    }
  }
  return p;
}

TEST(onnx_ml, support_vectors_give_the_probabilities_of_libsvm) {
  for (const int k : {2, 3, 4}) {
    OnnxBuilder b;
    ::onnx::OperatorSetIdProto& import = *b.model().add_opset_import();
    import.set_domain("ai.onnx.ml");
    import.set_version(1);
    b.input("x", {3, 2});
    const int pairs = k * (k - 1) / 2;
    Floats vectors, coefficients, rho, a, offset;
    Dims labels;
    for (int i = 0; i < 2 * k; ++i) vectors.push_back(float(std::sin(i + 1)));
    for (int i = 0; i < k * (k - 1); ++i) coefficients.push_back(float(2 * std::cos(3 * i)));
    for (int i = 0; i < pairs; ++i) {
      rho.push_back(0.25f * float(i));
      a.push_back(-2 + 0.5f * float(i));
      offset.push_back(0.125f * float(i));
    }
    for (int i = 0; i < k; ++i) labels.push_back(i);
    OnnxNode node = b.node("SVMClassifier", {"x"}, {"label", "y"});
    node.domain("ai.onnx.ml").text("kernel_type", "LINEAR").floats("support_vectors", vectors).floats("rho", rho);
    node.ints("vectors_per_class", Dims(size_t(k), 1)).ints("classlabels_ints", labels).floats("prob_a", a);
    node.floats("coefficients", coefficients).floats("prob_b", offset);
    b.output("y");
    const Floats x = {0.5f, -1, 2, 0.25f, -0.75f, 1}, y = reals(run_converted<float>(b, x));
    for (size_t row = 0; row < 3; ++row) {
      const auto seen = [&](int v) {
        return double(x[2 * row]) * double(vectors[size_t(2 * v)]) +
               double(x[2 * row + 1]) * double(vectors[size_t(2 * v + 1)]);
      };
      std::vector<std::vector<double>> r(size_t(k), std::vector<double>(size_t(k), 0));
      size_t pair = 0;
      for (int i = 0; i < k; ++i)
        for (int j = i + 1; j < k; ++j, ++pair) {
          const double s = double(coefficients[size_t((j - 1) * k + i)]) * seen(i) +
                           double(coefficients[size_t(i * k + j)]) * seen(j) + double(rho[pair]);
          r[size_t(i)][size_t(j)] = 1 / (1 + std::exp(s * double(a[pair]) + double(offset[pair])));
          r[size_t(j)][size_t(i)] = 1 - r[size_t(i)][size_t(j)];
        }
      const std::vector<double> p = pair_probabilities(r);
      for (size_t c = 0; c < p.size(); ++c) EXPECT_NEAR(y[row * p.size() + c], p[c], 1e-6) << k << ' ' << row;
    }
  }
}

}  // namespace
}  // namespace nacre::tools

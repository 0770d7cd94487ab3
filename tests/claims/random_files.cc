#include "tests/claims/random_files.h"

#include <limits>
#include <map>

#include "tests/importers/onnx_builder.h"

namespace nacre::test {
namespace {

using tools::OnnxBuilder;
using tools::SplitMix64;
using Dims = std::vector<int64_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kExtremes[] = {0,     -0.0f, 1e-45f, 1e-40f,   -1e-39f,   1.17549435e-38f, 1e-30f,   1e-10f,
                               1e10f, 1e30f, 3e38f,  -3.4e38f, kInfinity, -kInfinity,      kNoNumber};

bool one_in(SplitMix64& random, uint64_t n) { return random.below(n) == 0; }
template <class T, size_t kCount>
T pick(SplitMix64& random, const T (&of)[kCount]) {
  return of[random.below(kCount)];
}

// How unusual one file is. Most files have one kind of trouble, so that later checks are reached too.
struct Wildness {
  explicit Wildness(SplitMix64& random) : numbers(one_in(random, 3)), names(one_in(random, 4)) {}
  bool numbers, names;
};

float number(SplitMix64& random, const Wildness& wild) {
  if (wild.numbers && one_in(random, 12)) return pick(random, kExtremes);
  return float(int64_t(random.below(2001)) - 1000) / 1000;
}

std::vector<float> numbers(SplitMix64& random, const Wildness& wild, int64_t count) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(number(random, wild));
  return list;
}

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (const int64_t d : dims) all *= d;
  return all;
}

std::string wild_name(SplitMix64& random) {
  switch (random.below(9)) {
    case 0: return std::string(5000, 'n');
    case 1: return std::string(4090 + random.below(10), 'm');
    case 2: return "../../../tmp/name";
    case 3: return "\x1b[31m\a\b\r\nname";
    case 4: return "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    case 5: return "\xff\xfe\x80";
    case 6: return "value";  // a name that the tools use too
    case 7: return std::string("a\0b", 3);
    default: return "/";
  }
}

// Builds an ONNX network one layer at a time.
class Maker {
 public:
  explicit Maker(SplitMix64& random) : random_(random), wild_(random), b_(17) {}

  RandomFile run() {
    const bool image = one_in(random_, 2);
    const int64_t batch = one_in(random_, 4) ? 3 : 1;
    dims_ = image ? Dims{batch, int64_t(1 + random_.below(4)), 6, 6} : Dims{batch, int64_t(1 + random_.below(8))};
    x_ = name("x");
    const Dims sample(dims_.begin() + 1, dims_.end());
    b_.input(x_, dims_);
    const uint64_t layers = 1 + random_.below(6);
    for (uint64_t i = 0; i < layers; ++i) dims_.size() == 4 ? image_layer() : flat_layer();
    const bool rows = dims_.size() == 2;
    b_.output(x_);
    return {"onnx" + text_, b_.finish(), sample, rows ? dims_[1] : 0};
  }

 private:
  // Returns a name for the file: mostly `usual` with a number; in wild files sometimes a wild name.
  std::string name(const std::string& usual) {
    std::string chosen = usual + std::to_string(++count_);
    if (wild_.names && one_in(random_, 4))
      chosen = wild_name(random_) + (one_in(random_, 6) ? "" : std::to_string(count_));
    return chosen;
  }

  std::string constant(const Dims& dims) {
    const std::string made = name("w");
    b_.floats(made, dims, numbers(random_, wild_, product(dims)));
    return made;
  }

  tools::OnnxNode node(const std::string& op, const std::vector<std::string>& operands) {
    std::vector<std::string> inputs = {x_};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    x_ = name("y");
    text_ += " " + op;
    return b_.node(op, inputs, {x_});
  }

  void pointwise() {
    switch (random_.below(8)) {
      case 0: node("Relu", {}); break;
      case 1: node("Sigmoid", {}); break;
      case 2: node("LeakyRelu", {}).real("alpha", number(random_, wild_)); break;
      case 3: node("Add", {constant({1})}); break;
      case 4: node("Mul", {constant(Dims(dims_.size(), 1))}); break;
      case 5: node("Softmax", {}).integer("axis", int64_t(dims_.size()) - 1); break;
      case 6: node("Clip", {constant({}), constant({})}); break;
      default: node("Identity", {});
    }
  }

  void flat_layer() {
    const int64_t in = dims_[1], out = int64_t(1 + random_.below(6));
    switch (random_.below(6)) {
      case 0:
        node("Gemm", {constant({out, in}), constant({out})})
            .integer("transB", 1)
            .real("alpha", wild_.numbers ? number(random_, wild_) : 1);
        dims_[1] = out;
        break;
      case 1:
        node("MatMul", {constant({in, out})});
        dims_[1] = out;
        break;
      case 2:
        node("BatchNormalization", {constant({in}), constant({in}), constant({in}), positive(in)})
            .real("epsilon", 1e-5f);
        break;
      case 3: {
        const uint64_t copies = one_in(random_, 8) ? 25 : 1 + random_.below(3);
        node("Concat", std::vector<std::string>(copies, x_)).integer("axis", 1);
        dims_[1] *= int64_t(copies) + 1;
        break;
      }
      case 4: node("LayerNormalization", {constant({in}), constant({in})}).integer("axis", 1); break;
      default: pointwise();
    }
  }

  void image_layer() {
    const int64_t in = dims_[1], out = int64_t(1 + random_.below(5));
    switch (random_.below(7)) {
      case 0:
        node("Conv", {constant({out, in, 3, 3}), constant({out})}).ints("pads", {1, 1, 1, 1});
        dims_[1] = out;
        break;
      case 1:
        node("Conv", {constant({in, 1, 3, 3}), constant({in})}).integer("group", in).ints("pads", {1, 1, 1, 1});
        break;
      case 2: node("MaxPool", {}).ints("kernel_shape", {2, 2}).ints("pads", {1, 1, 0, 0}); break;
      case 3: node("AveragePool", {}).ints("kernel_shape", {3, 3}).ints("pads", {1, 1, 1, 1}); break;
      case 4: node("BatchNormalization", {constant({in}), constant({in}), constant({in}), positive(in)}); break;
      case 5:
        node("Flatten", {});
        dims_ = {dims_[0], product(dims_) / dims_[0]};
        break;
      default: pointwise();
    }
  }

  std::string positive(int64_t count) {  // makes variances, which are positive unless wild
    const std::string made = name("v");
    std::vector<float> list = numbers(random_, wild_, count);
    for (float& f : list) f = wild_.numbers ? f : f * f + 0.1f;
    b_.floats(made, {count}, list);
    return made;
  }

  SplitMix64& random_;
  Wildness wild_;
  OnnxBuilder b_;
  Dims dims_;
  std::string x_, text_;
  int count_ = 0;
};

float scale(SplitMix64& random, bool wild) {
  return wild && one_in(random, 4) ? pick(random, kExtremes) : 0.001f * float(1 + random.below(500));
}

std::vector<float> scales(SplitMix64& random, bool wild, int64_t count) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(scale(random, wild));
  return list;
}

}  // namespace

RandomFile random_float_onnx(SplitMix64& random) { return Maker(random).run(); }

RandomFile random_quantized_onnx(SplitMix64& random) {
  const bool wild = !one_in(random, 3);
  const int64_t in = int64_t(1 + random.below(6)), out = int64_t(1 + random.below(6));
  const bool per_axis = one_in(random, 2), uint8 = one_in(random, 2);
  const int type = uint8 ? ::onnx::TensorProto::UINT8 : ::onnx::TensorProto::INT8;
  OnnxBuilder b(17);
  b.input("x", {1, in});
  const auto quantized = [&](const std::string& name, const std::string& of) {
    b.floats(name + "_s", {}, {scale(random, wild)});
    b.codes(name + "_z", {}, {int(random.below(100))}, type);
    b.node("QuantizeLinear", {of, name + "_s", name + "_z"}, {name + "_q"});
    b.node("DequantizeLinear", {name + "_q", name + "_s", name + "_z"}, {name + "_d"});
    return name + "_d";
  };
  const std::string x = quantized("x", "x");
  const int64_t count = per_axis ? out : 1;
  std::vector<int> codes, biases;
  for (int64_t i = 0; i < in * out; ++i) codes.push_back(int(random.below(255)) - 127);
  std::vector<int64_t> sums;
  for (int64_t i = 0; i < out; ++i) biases.push_back(int(random.below(20001)) - 10000);
  b.codes("w_q", {out, in}, codes);
  b.floats("w_s", per_axis ? Dims{count} : Dims{}, scales(random, wild, count));
  b.codes("w_z", per_axis ? Dims{count} : Dims{}, std::vector<int>(size_t(count), 0));
  b.node("DequantizeLinear", {"w_q", "w_s", "w_z"}, {"w"}).integer("axis", 0);
  b.codes("b_q", {out}, biases, ::onnx::TensorProto::INT32);
  b.floats("b_s", per_axis ? Dims{count} : Dims{}, scales(random, wild, count));
  b.node("DequantizeLinear", {"b_q", "b_s"}, {"b"}).integer("axis", 0);
  b.node("Gemm", {x, "w", "b"}, {"y"}).integer("transB", 1);
  b.output(quantized("y", "y"));
  return {std::string("qdq") + (per_axis ? " per axis" : "") + (wild ? " wild" : ""), b.finish(), {in}, 0};
}

RandomFile random_sizes(SplitMix64& random) {
  constexpr int64_t kDims[] = {0, 1, 1, 2, 3, 7, 64, 65536, 1 << 28, (1 << 28) + 1, INT32_MAX, -1, int64_t{1} << 40};
  OnnxBuilder b(17);
  Dims dims;
  std::string text = "sizes [";
  for (uint64_t rank = random.below(one_in(random, 4) ? 10 : 5); rank > 0; --rank) {
    dims.push_back(pick(random, kDims));
    text += std::to_string(dims.back()) + " ";
  }
  b.input("x", dims);
  const std::string op =
      std::vector<std::string>{"Relu", "Add", "Flatten", "Concat", "MatMul", "Pad", "Expand", "Range"}[random.below(8)];
  if (op == "Relu") b.node(op, {"x"}, {"y"});
  if (op == "Flatten") b.node(op, {"x"}, {"y"}).integer("axis", int64_t(random.below(4)));
  if (op == "Add" || op == "MatMul") b.node(op, {"x", "x"}, {"y"});
  if (op == "Concat") b.node(op, std::vector<std::string>(2 + random.below(40), "x"), {"y"}).integer("axis", 0);
  if (op == "Pad") {
    Dims pads;
    for (size_t i = 0; i < 2 * dims.size(); ++i) pads.push_back(pick(random, kDims));
    b.integers("pads", {int64_t(pads.size())}, pads);
    b.node(op, {"x", "pads"}, {"y"});
  }
  if (op == "Expand") {
    b.floats("one", {1, 1}, {1});
    b.integers("to", {2}, {pick(random, kDims), pick(random, kDims)});
    b.node(op, {"one", "to"}, {"wide"});
    b.node("Add", {"x", "wide"}, {"y"});
  }
  if (op == "Range") {
    for (const char* bound : {"from", "to", "by"}) b.integers(bound, {}, {pick(random, kDims)});
    b.node(op, {"from", "to", "by"}, {"list"});
    b.node("Cast", {"list"}, {"reals"}).integer("to", 1);
    b.node("Add", {"x", "reals"}, {"y"});
  }
  b.output("y");
  return {text + "] " + op, b.finish(), {}, 0};
}

std::vector<BeyondLimit> files_beyond_limits() {
  std::vector<BeyondLimit> all;
  const auto chain = [&](const std::string& text, int count, const char* op, const std::string& said) {
    OnnxBuilder b(17);
    b.input("x", {1, 4});
    for (int i = 0; i < count; ++i) b.node(op, {i == 0 ? "x" : "v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
    b.output("v" + std::to_string(count));
    all.push_back({{text, b.finish(), {}, 0}, said});
  };
  chain("16,385 steps", 16385, "Sigmoid", "has 16,385 steps, a model holds at most 16,384");
  chain("100,000 steps", 100000, "Sigmoid", "has more than 65,536 steps, a model holds at most 16,384");
  chain("a name of 5,000 bytes", 1, "Sigmoid", "");
  {
    OnnxBuilder b(17);
    b.input("x", {1, 4});
    b.node("Sigmoid", {"x"}, {std::string(5000, 'y')});
    b.output(std::string(5000, 'y'));
    all.back() = {{"a name of 5,000 bytes", b.finish(), {}, 0},
                  "its name has 5,000 bytes, a model holds at most 4,096"};
  }
  {
    OnnxBuilder b(17);
    b.input("x", {1, 4});
    b.integers("a", {2}, {4, 1});
    b.integers("b", {2}, {1, 4});
    for (int i = 0; i < 65537; ++i)
      b.node("Reshape", {i == 0 ? "x" : "v" + std::to_string(i), i % 2 == 0 ? "a" : "b"},
             {"v" + std::to_string(i + 1)});
    b.node("Sigmoid", {"v65537"}, {"y"});
    b.output("y");
    all.push_back({{"65,538 layers", b.finish(), {}, 0}, "has more than 65,536 steps, a model holds at most 16,384"});
  }
  {
    OnnxBuilder b(17);
    b.input("x", {int64_t{1} << 28});
    b.node("Relu", {"x"}, {"y"});
    b.output("y");
    all.push_back(
        {{"golden pairs of 2 GiB", b.finish(), {}, 0}, "golden pair would take 2,147,483,648 bytes, the limit is"});
  }
  return all;
}

}  // namespace nacre::test

// Rows of claim policy_sources: Keras's quantized policies (keras/src/dtype_policies/dtype_policy.py), and what their
// layers do (keras/src/quantizers/quantizers.py and keras/src/layers/core/dense.py). policy_sources_keras_fits.cc has
// gptq and awq.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/claims/policy_sources.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

// Makes a dense with the kernel of keras_dense_int8 in the golden tables: [2 outputs, 3 inputs].
Graph golden_dense() { return dense(3, 2, {0.2f, 0.4f, -0.1f, -0.5f, 0.25f, 1}, {0.01f, -0.02f}); }

std::vector<int> codes(const Made& made, const std::string& tensor) {
  std::vector<int> all;
  for (const uint8_t byte : made.constant(tensor)) all.push_back(int(int8_t(byte)));
  return all;
}

std::string text(const std::vector<int>& numbers) {
  std::string all;
  for (const int n : numbers) all += (all.empty() ? "" : " ") + std::to_string(n);
  return all;
}

void kernel_codes(Checks& c) {
  const Made made({.policy = "int8_from_float32"}, golden_dense());
  c.same(text(codes(made, made.weights("fc"))), "63 127 -32 -63 32 127", "codes of the kernel");
  c.same(made.types("fc"), "int8 int8 float32", "types of the step");
}

// Checks the golden rows of keras_dense_int8.
void outputs_of_int8(Checks& c) {
  const Made made({.policy = "int8_from_float32"}, golden_dense());
  const struct {
    std::vector<float> x, y;
  } rows[] = {{{1, -2, 0.5f}, {-0.640803039f, -0.519969046f}},
              {{0, 0, 0}, {0.01f, -0.02f}},
              {{10, 0.1f, -0.1f}, {2.03368449f, -5.03953075f}}};
  for (const auto& row : rows)
    for (size_t i = 0; i < 2; ++i)
      c.that(std::abs(made.run(row.x)[i] - row.y[i]) <= 1e-6f * std::max(1.0f, std::abs(row.y[i])),
             "output " + std::to_string(i));
}

// Each row of the batch has a scale of its own, so the other rows do not change its result.
void scale_per_row(Checks& c) {
  Graph network = perceptron(2);
  const Made made({.policy = "int8_from_float32"}, network);
  std::vector<float> x = three_classes(3, 2, 6).x;
  const std::vector<float> first = made.run(x);
  for (size_t i = 6; i < 12; ++i) x[i] *= 1000;
  const std::vector<float> second = made.run(x);
  c.that(std::equal(first.begin(), first.begin() + 3, second.begin()), "row 0 stays when row 1 is 1000 times larger");
  c.that(!std::equal(first.begin() + 3, first.end(), second.begin() + 3), "and row 1 does not");
  c.that(made.count(Op::kDynamicQuantize) > 0, "its scales are found at run time");
}

void never_minus_128(Checks& c) {
  std::vector<float> w(256);
  for (size_t i = 0; i < w.size(); ++i) w[i] = float(i) - 128;
  const Made made({.policy = "int8_from_float32"}, dense(256, 1, w));
  const std::vector<int> found = codes(made, made.weights("fc"));
  c.same(double(*std::ranges::min_element(found)), -127.0, "least code");
  const Made zero({.policy = "int8_from_float32"}, dense(3, 1, {0, 0, 0}, {2}));
  c.same(zero.run({5, 6, 7}).at(0), 2.0f, "a kernel of zeros gives the bias");
}

// A byte holds two codes, the first in its low half.
void packs_int4(Checks& c) {
  const Made made({.policy = "int4_from_float32"}, dense(4, 1, {1, -1, 0.5f, 0.25f}));
  c.same(made.type(made.weights("fc")), "int4", "type of the kernel");
  const std::vector<uint8_t> bytes = made.constant(made.weights("fc"));
  c.same(double(bytes.size()), 2.0, "bytes of four codes");
  const auto nibble = [&](size_t i) { return (int(bytes[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8; };
  // Compares with the golden row int4_absmax of 1, -1, 0.5, 0.25.
  c.same(text({nibble(0), nibble(1), nibble(2), nibble(3)}), "7 -7 3 2", "codes");
  c.same(made.types("fc"), "float32 int4 float32", "activations are not quantized");
}

void groups_of_int4(Checks& c) {
  std::vector<float> w(70);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(float(i)) * (i < 32 ? 1.0f : 10.0f);
  const Made made({.policy = "int4/32_from_float32"}, dense(70, 1, w));
  int scales = 0, zeros = 0;
  for (const Value& value : made.graph().values) {
    scales += value.name.ends_with("w_scale") ? int(value.elements()) : 0;
    zeros += value.name.ends_with("w_zero") ? int(value.elements()) : 0;
  }
  c.same(double(scales), 3.0, "scales of 70 weights in blocks of 32");
  c.same(double(zeros), 3.0, "zero points");
  c.that(made.policy("fc").block == 32, "block in the file");
}

void group_range(Checks& c) {
  // Compares with the golden row of int4_grouped in Keras: a group of one sign saturates, and 1 .. 1.3 becomes 0.3
  // everywhere.
  const Made made({.policy = "int4/4_from_float32"},
                  dense(4, 4, {1, 1.1f, 1.2f, 1.3f, 1, 1.1f, 1.2f, 1.3f, 1, 1.1f, 1.2f, 1.3f, 1, 1.1f, 1.2f, 1.3f}));
  const float y = made.run({1, 0, 0, 0}).at(0);
  c.that(std::abs(y - 1) < 0.1f, "a weight of 1 in a group of 1 to 1.3 stays near 1");
}

void quantizes_convolutions(Checks& c) {
  Graph network = convolutional(1);
  const Made made({.policy = "int8_from_float32"}, network);
  c.same(made.types("conv1"), "int8 int8 float32", "a convolution");
  c.same(made.types("fc"), "int8 int8 float32", "a dense layer");
  c.same(made.types("mean"), "float32 float32", "a mean");
}

void trains_int8(Checks& c) {
  Training training({.policy = "int8_from_float32"});
  const std::vector<double> kernel = training.run().numbers("w2"), bias = training.run().numbers("b2");
  training.step();
  c.that(kernel != training.run().numbers("w2") && bias != training.run().numbers("b2"), "kernel and bias move");
  c.same(training.type("w2"), "float32", "the trained kernel");
}

void low_rank(Checks& c) {
  Training::Arguments arguments;
  arguments.lora_rank = 2;
  Training plain({.policy = "int8_from_float32"}), training({.policy = "int8_from_float32"}, arguments);
  c.that(plain.infer() == training.infer(), "B is 0 at first: the network gives what it gave");
  const std::vector<std::string> adapters = training.state("lora");
  c.that(adapters.size() >= 4, "two adapters a layer in state");
  for (const std::string& name : adapters) {
    if (name.ends_with("lora_a") || name.ends_with("lora_b")) c.same(training.type(name), "float32", name);
    if (!name.ends_with("lora_b")) continue;
    const std::vector<double> b = training.run().numbers(name);
    c.that(std::ranges::all_of(b, [](double v) { return v == 0; }), name + " is 0 at first");
  }
  const std::vector<float> before = training.infer();
  for (int i = 0; i < 3; ++i) training.step(0.5f);
  c.that(before != training.infer(), "training moves them");
}

std::string quantized(const std::string& class_name, const std::string& mode) {
  return R"({"class_name": ")" + class_name + R"(", "config": {"mode": ")" + mode + R"(", "source_name": "float32"}})";
}

const Capability kRows[] = {
    {"quantizers.abs_max_quantize",
     "scale = value_range[1] / (max(abs(inputs), axis) + epsilon); outputs = clip(round(inputs * scale))",
     kernel_codes},
    {"Dense._int8_call", "x = inputs times kernel in int32, then x / (inputs_scale * kernel_scale), then the bias",
     outputs_of_int8},
    {"Dense._int8_call", "inputs_quantizer = AbsMaxQuantizer(axis=-1): a scale for each row, fresh in each call",
     scale_per_row},
    {"quantizers.abs_max_quantize", "value_range=(-127, 127): -128 is no code", never_minus_128},
    {"QuantizedDTypePolicy", "mode \"int8\", source_name \"mixed_bfloat16\": compute and variable types of the source",
     [](Checks& c) {
       c.same(Made({.policy = "int8_from_mixed_bfloat16"}).types("fc1"), "int8 int8 bfloat16", "fc1");
       c.same(Made({.policy = "int8_from_bfloat16"}).types("softmax"), "bfloat16 bfloat16", "softmax");
     }},
    {"QuantizedDTypePolicy", "the same as an object, and as \"int8_from_float32\"",
     [](Checks& c) {
       c.same(Made({.file = quantized("QuantizedDTypePolicy", "int8")}).types("fc1"), "int8 int8 float32", "fc1");
     }},
    {"QuantizedDTypePolicy._check_quantization_mode",
     "Quantization mode='int8' doesn't work well with compute_dtype='float16'.",
     [](Checks& c) {
       for (const char* name : {"int8_from_float16", "int8_from_mixed_float16"})
         refuses(c, {.policy = name}, "Int8WithFloat16", "leave the range of float16");
     },
     Kind::kRefused},
    {"QuantizedDTypePolicy._check_quantization_mode", "Invalid quantization mode.",
     [](Checks& c) {
       refuses(c, {.policy = "int8x_from_float32"}, "InvalidMode", "is no quantization mode");
       refuses(c, {.file = quantized("QuantizedDTypePolicy", "int7")}, "InvalidMode", "is no quantization mode");
     },
     Kind::kRefused},
    {"_get_quantized_dtype_policy_by_str", "Cannot convert `policy` into a valid pair (`mode`, `source_name`)",
     [](Checks& c) { refuses(c, {.policy = "int8_from_int8_from_float32"}, "NotAPair", "more than one '_from_'"); },
     Kind::kRefused},
    {"keras.config.set_dtype_policy",
     "a quantized global policy: every layer calls its quantized call, and most have none",
     [](Checks& c) {
       const Made made({.policy = "int8_from_float32"}, convolutional(1));
       c.same(made.types("fc"), "int8 int8 float32", "a dense layer");
       c.same(made.types("bn1"), "float32 float32", "a batch norm, which has no int8");
     },
     Kind::kDeparts, "layers without the quantization run under its source's types"},
    {"Layer.quantize", "only Dense, EinsumDense, Embedding and ReversibleEmbedding have int8: no convolution",
     quantizes_convolutions, Kind::kDeparts, "convolutions are quantized too, per output channel"},
    {"Dense._int8_build", "kernel: trainable=False, gradients pass straight through to the inputs", trains_int8,
     Kind::kDeparts,
     "the kernel trains in float32 behind a rounding that gradients pass straight through, and is quantized anew"},
    {"Dense.enable_lora", "x = ops.add(x, (self.lora_alpha / self.lora_rank) * lora_x): A and B in float32, B of zeros",
     low_rank},
    {"Int8QuantizationConfig(activation_quantizer=None)", "weight-only quantization",
     [](Checks& c) {
       const Made made({.policy = "int8/weights_from_mixed_bfloat16"});
       c.same(made.types("fc1"), "bfloat16 int8 bfloat16", "fc1");
       c.same(double(made.count(Op::kDynamicQuantize)), 0.0, "steps that quantize activations");
     }},
    {"QuantizedDTypePolicy, mode int4",
     "per channel; pack_int4: Pack an int4 tensor into an int8 tensor with packed nibbles.", packs_int4},
    {"Int4DTypePolicy", "<block_size>: Any positive integer enables sub-channel quantization with that block size.",
     groups_of_int4},
    {"Int4DTypePolicy", "Use -1 for per-channel (legacy) quantization.",
     [](Checks& c) {
       const Made block({.policy = "int4/-1_from_float32"}), legacy({.policy = "int4_from_float32"});
       c.that(block.constant(block.weights("fc1")) == legacy.constant(legacy.weights("fc1")),
              "the codes of int4_from_float32");
       c.that(block.policy("fc1").block == 0, "no block in the file");
     }},
    {"Int4DTypePolicy", "as an object, mode \"int4/32\"",
     [](Checks& c) {
       c.that(Made({.file = quantized("Int4DTypePolicy", "int4/32")}).policy("fc1").block == 32, "block in the file");
     }},
    {"Int4DTypePolicy.__init__", "<block_size> must be an integer.",
     [](Checks& c) { refuses(c, {.policy = "int4/x_from_float32"}, "BlockSizeNotInt", "is no integer"); },
     Kind::kRefused},
    {"Int4DTypePolicy.__init__", "Supported values are -1 (per-channel) or a positive integer (sub-channel)",
     [](Checks& c) {
       for (const char* name : {"int4/0_from_float32", "int4/-2_from_float32"})
         refuses(c, {.policy = name}, "BadBlockSize", "is neither -1 nor positive");
     },
     Kind::kRefused},
    {"Int4DTypePolicy.__init__", "Invalid mode for Int4DTypePolicy. Expected format 'int4/<block_size>'",
     [](Checks& c) { refuses(c, {.policy = "int4/1/2_from_float32"}, "BadModeFormat", "is not int4/BLOCK"); },
     Kind::kRefused},
    {"quantizers.abs_max_quantize_grouped_with_zero_point",
     "min and max of the group: [1, 1.1, 1.2, 1.3] becomes 0.3 everywhere", group_range, Kind::kDeparts,
     "the range of a group includes 0, unless the policy says group_range=keras"},
    {"TernaryDTypePolicy", "ternary: weights of -1, 0, 1 and a scale",
     [](Checks& c) {
       refuses(c, {.policy = "ternary_from_float32"}, "NotConvertible", "no Keras release up to 3.15.1");
     },
     Kind::kRefused},
};

}  // namespace

Source keras_quantized() { return {"Keras's quantized policies", kRows}; }

}  // namespace nacre::test::policy_sources

// Rows of claim policy_sources: Keras's float8 policy (keras/src/dtype_policies/dtype_policy.py), and what a layer
// does under it (keras/src/layers/core/dense.py and keras/src/quantizers/quantizers.py).
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/claims/policy_sources.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string float8(const std::string& length) {
  return R"({"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "float8", "source_name": "float32", )"
         R"("amax_history_length": )" +
         length + "}}";
}

// Only fc1 is float8, so its input is the batch. It has three quantizers: for x and w in E4M3, for the gradient of y
// in E5M2.
Wish first_layer(int length) {
  return {.policy = "float32", .set = {"fc1=float8/" + std::to_string(length) + "_from_float32"}};
}

std::string only(Checks& c, const std::vector<std::string>& names, const std::string& what) {
  c.same(double(names.size()), 1.0, "tensors of " + what);
  return names.empty() ? "" : names[0];
}

float largest(int rows, int width) {
  float amax = 0;
  for (const float x : three_classes(1, rows, width).x) amax = std::max(amax, std::abs(x));
  return amax;
}

void formats(Checks& c) {
  const Training training(first_layer(4));
  int e4m3 = 0, e5m2 = 0;
  for (const Node& node : training.model().gradients.nodes) {
    if (node.op != Op::kFakeFloat8) continue;
    (get_integer(node, "format") == 0 ? e4m3 : e5m2) += 1;
  }
  c.same(double(e4m3), 2.0, "roundings to E4M3, of inputs and kernel");
  c.same(double(e5m2), 1.0, "roundings to E5M2, of the gradient");
}

void six_variables(Checks& c) {
  Training training(first_layer(4));
  const std::vector<std::string> scales = training.state("float8_scale"), histories = training.state("amax_history");
  c.same(double(scales.size()), 3.0, "scales");
  c.same(double(histories.size()), 3.0, "histories");
  for (const std::string& name : scales) {
    c.same(training.type(name), "float32", name);
    c.same(training.run().numbers(name).at(0), 1.0, "initial " + name);
  }
  for (const std::string& name : histories) {
    const std::vector<double> h = training.run().numbers(name);
    c.that(h.size() == 4 && std::ranges::all_of(h, [](double v) { return v == 0; }), "four zeros in " + name);
    c.same(training.type(name), "float32", name);
  }
}

// The amax of step 1 enters the history after that step, makes the scale after step 2, and is used in step 3.
void scale_lags(Checks& c) {
  Training training(first_layer(4));
  const std::string scale = only(c, training.state("/x/float8_scale"), "the scale of inputs");
  const float amax = largest(4, 6), expected = 1 / (448 / amax);
  training.step(0);
  c.same(training.run().numbers(scale).at(0), 1.0, "scale after one step");
  training.step(0);
  c.same(float(training.run().numbers(scale).at(0)), expected, "scale after two");
}

void history_rolls(Checks& c) {
  Training training(first_layer(3));
  const std::string history = only(c, training.state("/x/amax_history"), "the history of inputs");
  const double amax = double(largest(4, 6));
  // Makes the first number of the batch the largest: 2, 4, 8 times the amax.
  for (const double times : {2.0, 4.0, 8.0}) training.step(0, float(times * amax));
  const std::vector<double> h = training.run().numbers(history);
  c.that(h == std::vector<double>{double(float(8 * amax)), double(float(2 * amax)), double(float(4 * amax))},
         "newest first, then oldest to second newest");
}

void skipped_steps_learn_nothing(Checks& c) {
  Training training(first_layer(4), scaled("dynamic", "keras"));
  const std::string scale = only(c, training.state("/x/float8_scale"), "the scale"),
                    history = only(c, training.state("/x/amax_history"), "the history");
  for (int i = 0; i < 3; ++i) training.step(0);
  const auto before = std::make_pair(training.run().bytes(scale), training.run().bytes(history));
  c.that(!training.step(0, kNan).applied, "a step with a NaN is refused");
  c.that(before == std::make_pair(training.run().bytes(scale), training.run().bytes(history)),
         "scale and history stay");
}

void inference_learns_nothing(Checks& c) {
  Training training(first_layer(4));
  for (int i = 0; i < 3; ++i) training.step(0);
  const std::vector<std::byte> before(training.run().state().begin(), training.run().state().end());
  const std::vector<float> first = training.infer(), second = training.infer();
  c.that(first == second, "the same scales in every call");
  c.that(std::ranges::equal(before, training.run().state()), "the state stays");
}

Calibration calibrated(const Graph& network, const std::vector<float>& sample) {
  NpyArray array{ElementType::kFloat32, network.values[size_t(network.inputs[0].value)].dims, {}, "x"};
  const auto* bytes = reinterpret_cast<const uint8_t*>(sample.data());
  array.data = ElementBytes(bytes, bytes + sample.size() * sizeof(float));
  SampleOptions sampling;
  sampling.may_be_equal = true;
  return calibrate(network, make_samples(network, {array}, sampling));
}

void needs_samples(Checks& c) {
  refuses(c, {.policy = "float8_from_float32"}, "Error", "policy float8 needs a range for its input");
  const Graph network = dense(4, 1, {1, 2, 3, 4});
  const Calibration calibration = calibrated(network, {1000, 0, 0, 0});
  const Made made({.policy = "float8_from_float32"}, network, &calibration);
  // Without a scale the largest number would be 448.
  c.that(std::abs(made.run({1000, 0, 0, 0}).at(0) - 1000) < 40, "an input of 1000, which samples hold, is not clipped");
}

void stores_codes(Checks& c) {
  const Graph network = dense(4, 1, {1, 2, 3, 4});
  const Calibration calibration = calibrated(network, {1, 1, 1, 1});
  const Made made({.policy = "float8_from_float32"}, network, &calibration);
  c.same(made.types("fc"), "float8_e4m3 float8_e4m3 float32", "types of the step");
  c.same(double(made.constant(made.weights("fc")).size()), 4.0, "bytes of four weights");
}

void low_rank(Checks& c) {
  Training::Arguments arguments;
  arguments.lora_rank = 2;
  Training training(first_layer(4), arguments);
  c.that(training.state("lora").size() >= 2, "adapters in state");
  const std::vector<std::string> scales = training.state("float8_scale");
  const std::vector<double> before = training.run().numbers(training.state("lora_a").at(0));
  for (int i = 0; i < 3; ++i) training.step(0.5f);
  c.that(before != training.run().numbers(training.state("lora_a").at(0)), "which train");
  c.that(!scales.empty(), "beside float8 layers");
}

void overwrite_with_gradient(Checks& c) {
  Training::Arguments arguments;
  arguments.optimizer = "adamw,weight_decay=0.5";
  Training fast(first_layer(4), arguments), slow(first_layer(4), arguments);
  const std::string scale = only(c, fast.state("/x/float8_scale"), "the scale");
  for (int i = 0; i < 3; ++i) fast.step(0), slow.step(0x1p-10f);
  c.that(fast.run().bytes(scale) == slow.run().bytes(scale), "rate and decay do not touch scales");
  for (const std::string& name : fast.state("float8"))
    c.that(name.find("moment") == std::string::npos, "no moments of " + name);
}

void longest(Checks& c) {
  const Training training({.policy = "float8_from_float32"});
  for (const std::string& name : training.state("amax_history"))
    c.same(double(const_cast<Training&>(training).run().numbers(name).size()), 1024.0, name);
}

void length_of(Checks& c, const std::string& length, double expected) {
  Training training({.file = float8(length)});
  for (const std::string& name : training.state("amax_history"))
    c.same(double(training.run().numbers(name).size()), expected, name);
}

// In softmax cross-entropy the gradients of a row sum to 0. E5M2 has two bits of fraction, so its rounded gradients
// do not.
void bias_before_gradient(Checks& c) {
  Training training({.policy = "float8/4_from_float32"}, scaled("none", "nacre"));
  const std::vector<double> before = training.run().numbers("b2");
  training.step(1);
  const std::vector<double> after = training.run().numbers("b2");
  double sum = 0, magnitudes = 0;
  for (size_t i = 0; i < after.size(); ++i) sum += after[i] - before[i], magnitudes += std::abs(after[i] - before[i]);
  c.that(magnitudes > 0.01, "the bias moves");
  c.that(std::abs(sum) < 1e-5 * magnitudes, "by gradients that sum to 0: " + std::to_string(sum / magnitudes));
}

// Gradients are those of the scaled loss. Their history holds scaled gradients, and an update does not divide float8
// scales by the loss scale.
void scaled_gradients(Checks& c) {
  Training one(first_layer(4), scaled("none", "nacre")), large(first_layer(4), scaled("fixed=1024", "keras"));
  one.step(0);
  large.step(0);
  const std::string history = only(c, one.state("/y/amax_history"), "the history of gradients");
  const double amax = one.run().numbers(history).at(0);
  c.that(amax > 0, "gradients have a largest magnitude");
  c.same(large.run().numbers(history).at(0), 1024 * amax, "under a loss scale of 1024");
  const std::string inputs = only(c, one.state("/x/amax_history"), "the history of inputs");
  c.same(large.run().numbers(inputs).at(0), one.run().numbers(inputs).at(0), "that of inputs does not know of it");
}

// The history gets the largest magnitude of the two micro-batches of one step.
void accumulates(Checks& c) {
  Training training(first_layer(4));
  const std::string history = only(c, training.state("/x/amax_history"), "the history of inputs");
  LabelledRows rows = three_classes(1, 4, 6);
  for (const float odd : {100.0f, 50.0f}) {
    rows.x[0] = odd;
    training.run().write(0, rows.x);
    training.run().write(1, rows.labels);
    training.run().accumulate();
  }
  training.run().commit(0);
  c.same(training.run().numbers(history).at(0), 100.0, "newest of the history");
}

// 448 / 1e-37 is infinite in float32, so Keras's scale becomes 0, and x / 0 infinite or NaN.
void tiny_inputs(Checks& c) {
  Training training(first_layer(2));
  const std::string scale = only(c, training.state("/x/float8_scale"), "the scale of inputs");
  LabelledRows rows = three_classes(1, 4, 6);
  for (float& x : rows.x) x *= 1e-37f;
  for (int i = 0; i < 4; ++i) {
    training.run().write(0, rows.x);
    training.run().write(1, rows.labels);
    training.run().accumulate();
    c.that(training.run().commit(0).applied, "step " + std::to_string(i) + " is finite");
  }
  c.that(training.run().numbers(scale).at(0) >= 0x1p-126, "the scale is no less than the least normal number");
}

const Capability kRows[] = {
    {"Dense._float8_call",
     "quantize_and_dequantize(inputs, scale, \"float8_e4m3fn\", ...), the gradient in \"float8_e5m2\"", formats},
    {"Dense._float8_build",
     "inputs_scale, inputs_amax_history, kernel_scale, kernel_amax_history, outputs_grad_scale, "
     "outputs_grad_amax_history: ones and zeros, float32",
     six_variables},
    {"QuantizedFloat8DTypePolicy", "default_amax_history_length = 1024", longest},
    {"QuantizedFloat8DTypePolicy.amax_history_length", "The length of the amax history window.",
     [](Checks& c) { length_of(c, "16", 16), length_of(c, "1", 1); }},
    {"QuantizedDTypePolicy", "mode \"float8\" without a length: layers take default_amax_history_length",
     [](Checks& c) {
       Training training(
           {.file =
                R"({"class_name": "QuantizedDTypePolicy", "config": {"mode": "float8", "source_name": "float32"}})"});
       for (const std::string& name : training.state("amax_history"))
         c.same(double(training.run().numbers(name).size()), 1024.0, name);
     }},
    {"QuantizedFloat8DTypePolicy", "the mode is not tied to the class: QuantizedFloat8DTypePolicy(\"int8\") is int8",
     [](Checks& c) {
       const Made made({.file = R"({"class_name": "QuantizedFloat8DTypePolicy", "config": {"mode": "int8",
                                    "source_name": "float32", "amax_history_length": 16}})"});
       c.same(made.types("fc1"), "int8 int8 float32", "fc1");
     }},
    {"QuantizedFloat8DTypePolicy.__init__", "isinstance(amax_history_length, int): True is one",
     [](Checks& c) { length_of(c, "true", 1); }},
    {"QuantizedFloat8DTypePolicy.__init__", "`amax_history_length` must be an integer.",
     [](Checks& c) {
       for (const char* length : {"1.5", "\"16\"", "null"})
         refuses(c, {.file = float8(length)}, "AmaxLengthNotInt", "expected an integer");
     },
     Kind::kRefused},
    {"QuantizedFloat8DTypePolicy.__init__",
     "no check of the range: 0 and negative lengths are policies; a layer cannot be called "
     "or built with them",
     [](Checks& c) {
       refuses(c, {.file = float8("0")}, "NotConvertible", "Keras's layers fail when they are called");
       refuses(c, {.file = float8("-3")}, "NotConvertible", "Keras builds no layer with it");
       refuses(c, {.file = float8("65536")}, "NotConvertible", "Nacre keeps 1 to 65535 magnitudes");
     },
     Kind::kRefused},
    {"quantizers.compute_float8_scale", "new_scale from ops.max(amax_history, axis=0): of the history before this step",
     scale_lags},
    {"quantizers.compute_float8_amax_history", "ops.roll(amax_history, shift=-1), then [0] is the newest",
     history_rolls},
    {"LossScaleOptimizer", "the train step is skipped: scales and histories, which the optimizer assigns, stay",
     skipped_steps_learn_nothing},
    {"LossScaleOptimizer", "variables with overwrite_with_gradient are not unscaled", scaled_gradients},
    {"BaseOptimizer, gradient_accumulation_steps", "accumulators of overwrite_with_gradient variables take ops.maximum",
     accumulates},
    {"quantizers.compute_float8_scale", "sf = dtype_max / amax without a guard: an amax of 1e-37 makes the scale 0",
     tiny_inputs, Kind::kDeparts, "a scale is between the least normal and the largest number"},
    {"Variable.overwrite_with_gradient", "the variable is overwritten by its gradient: no rate, no decay, no moments",
     overwrite_with_gradient},
    {"Dense._float8_call", "if training: ... else: new_scale = None", inference_learns_nothing},
    {"Dense._float8_call", "the gradient of the bias is that before quantized_dequantize_outputs",
     bias_before_gradient},
    {"Dense._float8_call", "source_name \"mixed_bfloat16\": compute and variable types of the source",
     [](Checks& c) {
       Training training({.policy = "float8/4_from_mixed_bfloat16"});
       c.same(training.types("fc1"), "bfloat16 bfloat16 bfloat16", "fc1");
       c.same(training.type("w1"), "float32", "its variable");
       training.step();
       c.same(double(training.state("float8_scale").size()), 6.0, "scales of two layers");
     }},
    {"Dense._float8_call", "without training the scale is 1: an input beyond 448 is clipped", needs_samples,
     Kind::kDeparts, "a conversion wants samples for the scales, and a trained network has them"},
    {"Dense._float8_build", "the kernel stays in the variable type: float8 is simulated", stores_codes, Kind::kDeparts,
     "the file of a network that only infers holds codes of one byte"},
    {"Dense._float8_call", "Currently, `_float8_call` doesn't support LoRA", low_rank, Kind::kDeparts,
     "adapters train beside "
     "float8 layers"},
    {"Layer.quantize", "only Dense and EinsumDense have float8: no convolution",
     [](Checks& c) {
       Training training({.policy = "float32", .set = {"conv1=float8/4_from_float32"}}, {}, convolutional(4));
       c.same(double(training.state("float8_scale").size()), 3.0, "scales of a convolution");
       training.step();
       const double amax = training.run().numbers(only(c, training.state("/x/amax_history"), "its history")).at(0);
       c.that(amax > 0, "which learn");
     },
     Kind::kDeparts, "convolutions are rounded to float8 too"},
    {"Model.compile, auto_scale_loss", "float8_from_mixed_float16 is not wrapped in a LossScaleOptimizer",
     [](Checks& c) {
       Training training({.policy = "float8/4_from_mixed_float16"});
       c.same(training.scale(), 32768.0f, "loss scale");
     },
     Kind::kDeparts, "a layer that computes in float16 trains with a dynamic scale unless the policy says none"},
    {"_get_quantized_dtype_policy_by_str", "\"float8_from_float32\", and no other length in a name",
     [](Checks& c) {
       c.that(Training({.policy = "float8_from_float32"}).state("amax_history").size() == 6,
              "six histories of two layers");
       refuses(c, {.policy = "float8/0_from_float32"}, "BadHistoryLength", "is no history length");
     }},
};

}  // namespace

Source keras_float8() { return {"Keras's float8 policy", kRows}; }

}  // namespace nacre::test::policy_sources

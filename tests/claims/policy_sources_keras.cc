// Rows of claim policy_sources: Keras's policies, keras/src/dtype_policies/dtype_policy.py and what uses them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/claims/policy_sources.h"
#include "tools/policies/write_keras_json.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void one_type(Checks& c, const std::string& name) {
  const Made made({.policy = name});
  c.same(made.types("fc1"), name + " " + name + " " + name, "types of fc1");
  const Training training({.policy = name});
  c.same(training.type("w1"), name, "variable w1 in training");
  c.same(training.types("fc1"), name + " " + name + " " + name, "fc1 in training");
}

void mixed(Checks& c, const std::string& type) {
  const Made made({.policy = "mixed_" + type});
  c.same(made.types("fc1"), type + " " + type + " " + type, "types of fc1");
  const Training training({.policy = "mixed_" + type});
  c.same(training.type("w1"), "float32", "variable w1 in training");
  c.same(training.types("fc1"), type + " " + type + " " + type, "fc1 in training");
}

// Sums 2050 ones; a sum in float16 would stay at 2048.
void sums_in_float32(Checks& c) {
  const Made made({.policy = "float16"}, dense(2050, 1, std::vector<float>(2050, 1)));
  c.that(made.types("fc").starts_with("float16 float16"), "fc computes in float16");
  c.same(made.run(std::vector<float>(2050, 1)).at(0), 2050.0f, "sum of 2050 ones");
}

// A float32 variable keeps an update far below half a float16 unit of the parameter; a float16 variable loses it.
void small_updates(Checks& c) {
  Training mixed({.policy = "mixed_float16"}, scaled("fixed=1024", "nacre"));
  const std::vector<double> before = mixed.run().numbers("w1");
  mixed.step(0x1p-16f);
  c.that(before != mixed.run().numbers("w1"), "a small update moves the float32 variable");
  Training half({.policy = "float16"}, scaled("fixed=1024", "nacre"));
  const std::vector<uint8_t> bits = half.run().bytes("w1");
  c.that(half.step(0x1p-20f).applied && bits == half.run().bytes("w1"), "and none of float16");
}

void integers_stay(Checks& c) {
  Graph graph = parse(R"(graph "integers" batch=1
value %x float32 [1, 4]
value %n int32 [1, 4]
value %a float32 [1, 4]
value %t int32 [4]
input "x" %x
input "n" %n
%a = tanh(%x)
%t = reshape(%n) rank=1 dims=[4]
output "a" %a
output "t" %t
)");
  for (Node& node : graph.nodes) {
    node.name = graph.values[size_t(node.outputs[0])].name;
    node.layer = graph.add_layer({.name = node.name, .source_op = find_rule(node.op)->name, .policy = {}});
  }
  const Made made({.policy = "mixed_float16"}, graph);
  c.same(made.type("n"), "int32", "integer input");
  c.same(made.type("t"), "int32", "what is made of it");
  c.same(made.types("a"), "float16 float16", "the layer of reals");
}

void batch_norm_in_float32(Checks& c) {
  Training training({.policy = "mixed_float16"}, {}, convolutional(4));
  for (const char* name : {"bn1.scale", "bn1.bias", "bn1.mean", "bn1.variance"})
    c.same(training.type(name), "float32", name);
  c.same(training.types("conv1"), "float16 float16 float16", "the convolution before it");
  Graph graph = parse(R"(graph "norm" batch=1
value %x float32 [1, 2]
value %y float32 [1, 2]
value %one float32 [2] data=float32 {1, 1}
value %zero float32 [2] data=float32 {0, 0}
value %variance float32 [2] data=float32 {2.5e9, 2.5e9}
input "x" %x
%y = batch_norm(%x, %one, %zero, %zero, %variance) epsilon=0.001
output "y" %y
)");
  graph.nodes[0].name = "norm";
  graph.nodes[0].layer = graph.add_layer({.name = "norm", .source_op = "batch_norm", .policy = {}});
  // A variance of 2.5e9 is infinite in float16; 50000 is a finite number.
  const Made made({.policy = "mixed_float16"}, graph);
  // Both numbers are rounded once on the way in and once on the way out, each time by 2^-11 of themselves.
  c.that(std::abs(made.run({50000, -25000}).at(0) - 1) < 0x1p-10f, "50000 over the root of 2.5e9 is 1");
  c.that(std::abs(made.run({50000, -25000}).at(1) + 0.5f) < 0x1p-11f, "-25000 over it is -0.5");
}

// A decay of 2^-13 of a variable is a quarter of float16's last place, so only a float32 variable shows it.
void decays_the_variable(Checks& c) {
  const auto stepped = [](const std::string& optimizer) {
    Training::Arguments arguments;
    arguments.optimizer = optimizer;
    Training training({.policy = "mixed_float16"}, arguments);
    training.step(0x1p-12f);
    return training.run().numbers("w2");
  };
  const std::vector<double> plain = stepped("adamw"), decayed = stepped("adamw,weight_decay=0.5");
  const std::vector<double> before = Training({.policy = "mixed_float16"}).run().numbers("w2");
  for (size_t i = 0; i < before.size(); ++i)
    c.that(std::abs(plain[i] - decayed[i] - 0x1p-13 * before[i]) <= 0x1p-23 * std::abs(before[i]),
           "w2[" + std::to_string(i) + "] decays by 2^-13 of itself");
}

std::string with_name(const std::string& name) {
  return R"({"class_name": "DTypePolicy", "config": {"name": )" + name + "}}";
}

// Checks the scale of the file, and what a training does with it.
void starts_with(Checks& c, const std::string& policy, float scale) {
  Training training({.policy = policy});
  c.same(training.scale(), scale, "loss scale of " + policy);
  c.same(training.step().loss_scale, scale, "of its first step");
}

void halves_and_skips(Checks& c) {
  Training training({.policy = "mixed_float16"}, scaled("dynamic", "keras"));
  const std::vector<double> before = training.run().numbers("w1");
  const Trainer::Report report = training.step(0x1p-4f, kNan);
  c.that(!report.applied, "the step is skipped");
  c.that(before == training.run().numbers("w1"), "variables stay");
  c.same(training.scale(), 16384.0f, "the scale is halved");
  c.that(training.step().applied && training.scale() == 16384, "the next step is applied with it");
}

void grows(Checks& c) {
  Training training({.policy = "float32"}, scaled("dynamic", "keras"));
  for (int i = 0; i < 1999; ++i) training.step(0);
  c.same(training.scale(), 32768.0f, "scale after 1999 steps");
  training.step(0);
  c.same(training.scale(), 65536.0f, "scale after 2000 steps");
}

void has_no_floor(Checks& c) {
  Training training({.policy = "float32"}, scaled("dynamic=1", "keras"));
  training.step(0, kNan);
  training.step(0, kNan);
  c.same(training.scale(), 0.25f, "scale after two steps that are not finite");
}

// A scale of 0 makes every gradient 0 / 0; an infinite scale makes every loss infinite.
void lost_scales(Checks& c) {
  for (const float scale : {0.0f, std::numeric_limits<float>::infinity()}) {
    Training training({.policy = "float32"}, scaled("dynamic", "keras"));
    training.set_scale(scale);
    const std::vector<uint8_t> before = training.run().bytes("w1");
    c.that(!training.step(0x1p-4f).applied, "a step under a scale of " + std::to_string(scale) + " is refused");
    c.that(before == training.run().bytes("w1"), "parameters stay");
  }
}

void factor_cancels(Checks& c) {
  Training with({.policy = "float32"}, scaled("fixed=1024", "keras")),
      without({.policy = "float32"}, scaled("none", "nacre"));
  with.step();
  without.step();
  c.that(with.run().bytes("w1") == without.run().bytes("w1"), "a factor of 2^10 leaves the update as it is");
  c.same(with.scale(), 1024.0f, "the scale");
}

void serializes(Checks& c) {
  const Graph network = perceptron(1);
  for (const std::string name :
       {"mixed_bfloat16", "int8_from_float32", "float8_from_float32", "int4/32_from_float32"}) {
    Graph first = network, second = network;
    const PolicyRequest request = request_of({.policy = name});
    resolve_policies(first, request);
    resolve_policies(second, request_of({.file = keras_policies_json(first, request).dump()}));
    c.that(second.layers[0].asked && first.layers[0].policy.compute == second.layers[0].policy.compute &&
               first.layers[0].policy.quantization == second.layers[0].policy.quantization &&
               first.layers[0].policy.block == second.layers[0].policy.block,
           name + " is written and read");
  }
}

const Capability kRows[] = {
    {"DTypePolicy",
     "Can be any dtype name, such as \"float32\" or \"float64\", which causes both the compute and variable "
     "dtypes will be that dtype.",
     [](Checks& c) { one_type(c, "float32"), one_type(c, "float64"); }},
    {"DTypePolicy", "... any dtype name: float16", [](Checks& c) { one_type(c, "float16"); }},
    {"DTypePolicy", "... any dtype name: bfloat16", [](Checks& c) { one_type(c, "bfloat16"); }},
    {"DTypePolicy",
     "Can also be the string \"mixed_float16\" ..., which causes the compute dtype to be float16 ... and "
     "the variable dtype to be float32.",
     [](Checks& c) { mixed(c, "float16"); }},
    {"DTypePolicy",
     "... \"mixed_bfloat16\", which causes the compute dtype to be ... bfloat16 and the variable dtype to be "
     "float32.",
     [](Checks& c) { mixed(c, "bfloat16"); }},
    {"DTypePolicy.compute_dtype", "Typically layers output tensors with the compute dtype as well.",
     [](Checks& c) {
       const Made made({.policy = "mixed_float16"});
       c.same(made.types("fc1"), "float16 float16 float16", "fc1");
       c.same(made.types("fc2"), "float16 float16 float16", "fc2, which reads it");
     }},
    {"DTypePolicy.compute_dtype",
     "many ops will do certain internal calculations in float32 ... to increase numeric "
     "stability",
     sums_in_float32},
    {"DTypePolicy.variable_dtype", "This is the dtype layers will create their variables in", small_updates},
    {"DTypePolicy.variable_dtype", "Layers will cast variables to the compute dtype to avoid type errors.",
     [](Checks& c) {
       const Training training({.policy = "mixed_bfloat16"});
       c.same(training.type("w1"), "float32", "the variable");
       c.same(training.types("fc1"), "bfloat16 bfloat16 bfloat16", "the operands of the layer");
     }},
    {"DTypePolicy.variable_dtype", "Variable regularizers are run in the variable dtype, not the compute dtype.",
     decays_the_variable},
    {"DTypePolicy.convert_input", "this method will keep integer inputs untouched and only apply casting to floats",
     integers_stay},
    {"DTypePolicy.convert_input", "Converts the input dtype: of floats to the compute dtype",
     [](Checks& c) {
       const Made made({.policy = "mixed_float16"});
       c.same(made.type("x"), "float32", "the network's input");
       c.that(made.count(Op::kCast) > 0 && made.types("fc1").starts_with("float16"), "is cast for fc1");
     }},
    {"DTypePolicy", "Can optionally override layer to use float32 instead of mixed precision.",
     [](Checks& c) {
       const Made made({.policy = "mixed_float16", .set = {"softmax=float32"}});
       c.same(made.types("softmax"), "float32 float32", "softmax");
       c.that(made.types("fc2").starts_with("float16 float16"), "fc2 computes in float16");
     }},
    {"keras.config.set_dtype_policy", "Sets the default dtype policy globally.",
     [](Checks& c) {
       const Made made({.policy = "bfloat16"});
       for (const char* layer : {"fc1", "fc2", "softmax"})
         c.that(made.policy(layer).compute == ElementType::kBfloat16, std::string(layer) + " has the global policy");
     }},
    {"DTypePolicy.__init__", "Use the global dtype policy if `name` is not specified",
     [](Checks& c) {
       const Made made(
           {.policy = "float64", .only = {"softmax"}, .file = R"({"layers": {"fc1": )" + with_name("null") + "}}"});
       c.same(made.types("fc1"), "float64 float64 float64", "fc1, whose policy is null");
       c.same(made.types("fc2"), "float32 float32 float32", "fc2, which has none");
     }},
    {"keras.dtype_policies.get",
     "One of `None` or string name of a `DTypePolicy` or `DTypePolicy` configuration dictionary",
     [](Checks& c) {
       for (const std::string& file : {std::string("\"bfloat16\""), with_name("\"bfloat16\"")})
         c.same(Made({.file = file}).types("fc1"), "bfloat16 bfloat16 bfloat16", file);
     }},
    {"serialization_lib.serialize_keras_object",
     "\"module\", \"registered_name\" and \"shared_object_id\" of an object that is "
     "serialized twice",
     [](Checks& c) {
       c.same(Made({.file = R"({"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float64"},
                                "registered_name": null, "shared_object_id": 140230})"})
                  .types("fc1"),
              "float64 float64 float64", "fc1");
     }},
    {"FloatDTypePolicy", "An alias for `DTypePolicy`",
     [](Checks& c) {
       c.same(Made({.file = R"({"class_name": "FloatDTypePolicy", "config": {"name": "float16"}})"}).types("fc1"),
              "float16 float16 float16", "fc1");
     }},
    {"keras.dtype_policies.serialize", "Serializes `DTypePolicy` instance.", serializes},
    {"BatchNormalization.call",
     "BN is prone to overflow with float16/bfloat16 inputs, so we upcast to float32 for the "
     "subsequent computations.",
     batch_norm_in_float32},
    {"DTypePolicy._parse_name", "Cannot convert '{name}' to a mixed precision DTypePolicy.",
     [](Checks& c) {
       for (const char* name : {"fp16", "Float32", "mixed_float8", " float32"})
         refuses(c, {.policy = name}, "CannotConvert", "cannot convert");
     },
     Kind::kRefused},
    {"DTypePolicy._parse_name", "'name' must be a string, such as 'mixed_float16'.",
     [](Checks& c) { refuses(c, {.file = with_name("16")}, "NameNotString", "a number, expected a string"); },
     Kind::kRefused},
    {"set_dtype_policy",
     "Invalid `policy` argument. Expected the string name of a policy ... or a `DTypePolicy` instance.",
     [](Checks& c) { refuses(c, {.file = "12345"}, "WrongType", "expected the name of a policy or an object"); },
     Kind::kRefused},
    {"keras.dtype_policies.get",
     "if identifier.startswith(QUANTIZATION_MODES): return _get_quantized_dtype_policy_by_str(identifier): \"int8\" "
     "and \"float8_e4m3fn\" are no policies",
     [](Checks& c) {
       for (const char* name : {"int8", "float8", "float8_e4m3fn", "int8_abc"})
         refuses(c, {.policy = name}, "NotAPair", "names no policy to quantize from");
     },
     Kind::kRefused},
    {"DTypePolicy.__init__", "any dtype name: also \"int32\", \"bool\", \"complex64\"",
     [](Checks& c) {
       for (const char* name : {"int32", "bool", "complex64", "uint8"})
         refuses(c, {.policy = name}, "NotConvertible", "which no layer here does");
     },
     Kind::kRefused, "no layer computes in integers, booleans or complex numbers under a policy"},
    {"Model.compile, auto_scale_loss",
     "If `True` and the model dtype policy is `\"mixed_float16\"`, the passed optimizer will be "
     "automatically wrapped in a `LossScaleOptimizer`",
     [](Checks& c) { starts_with(c, "mixed_float16", 32768), starts_with(c, "mixed_bfloat16", 1); }},
    {"Model.compile, auto_scale_loss", "self.dtype_policy.name == \"mixed_float16\": float16 is not wrapped",
     [](Checks& c) { starts_with(c, "float16", 32768), starts_with(c, "float16;loss_scale=none", 1); }, Kind::kDeparts,
     "a layer that computes in float16 trains with a dynamic scale unless the policy says none"},
    {"LossScaleOptimizer",
     "if a nonfinite gradient is encountered, the loss scale is halved, and the train step is skipped",
     halves_and_skips},
    {"LossScaleOptimizer", "After every `dynamic_growth_steps` steps with finite gradients, the loss scale is doubled.",
     grows},
    {"LossScaleOptimizer", "dynamic_growth_steps: Int. How often to update the scale upwards.",
     [](Checks& c) {
       c.same(scale_after("FFF", "dynamic,period=4", "keras"), 32768.0f, "scale after three steps");
       c.same(scale_after("FFFF", "dynamic,period=4", "keras"), 65536.0f, "scale after four");
     }},
    {"LossScaleOptimizer", "initial_scale: Float. The initial loss scale.",
     [](Checks& c) {
       Training training({.policy = "mixed_float16"}, scaled("dynamic=1024", "keras"));
       c.same(training.step().loss_scale, 1024.0f, "loss scale of the first step");
     }},
    {"LossScaleOptimizer._stateful_handle_non_finite_grads",
     "self.dynamic_scale.assign(ops.multiply(self.dynamic_scale, 0.5)): without a floor", has_no_floor},
    {"LossScaleOptimizer",
     "after 165 overflows the scale is 0, and 0 / 0 is applied as finite; a scale that grew to infinity "
     "stays there",
     lost_scales, Kind::kDeparts, "no step that is not finite is applied, under any rule"},
    {"Optimizer, loss_scale_factor",
     "the scale factor will be multiplied the loss before computing gradients, and the inverse "
     "of the scale factor will be multiplied by the gradients before updating variables",
     factor_cancels},
};

}  // namespace

Source keras_policies() { return {"Keras's policies", kRows}; }

}  // namespace nacre::test::policy_sources

// Rows of claim policy_sources: jmp, jmp/_src/policy.py and jmp/_src/loss_scale.py.
#include <algorithm>
#include <limits>

#include "tests/claims/policy_sources.h"
#include "tools/policies/policy_text.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Checks the types of params, compute and output of fc1 in the file, and of its step.
void types(Checks& c, const std::string& policy, const std::string& params, const std::string& compute,
           const std::string& output) {
  const Made made({.policy = policy});
  const Policy written = made.policy("fc1");
  c.same(std::string(name_of(written.variable)), params, "params of " + policy);
  c.same(std::string(name_of(written.compute)), compute, "compute");
  c.same(std::string(name_of(written.output)), output, "output");
  c.that(made.types("fc1").starts_with(compute + " " + compute), "the step of fc1 computes in it");
}

float scale_after(const std::string& steps, const std::string& loss_scale) {
  return policy_sources::scale_after(steps, loss_scale, "jmp");
}

void selects(Checks& c) {
  Training::Arguments arguments = scaled("dynamic", "jmp");
  arguments.optimizer = "adam";
  Training training({.policy = "jmp(c=f16)"}, arguments), other({.policy = "jmp(c=f16)"}, arguments);
  training.step();
  other.step();
  c.that(!training.step(0x1p-4f, kNan).applied, "a step with NaN is refused");
  for (const std::string& name : training.state(""))
    if (name.find("loss_scale") == std::string::npos)
      c.that(training.run().bytes(name) == other.run().bytes(name), name + " is selected from before");
  c.that(training.step().applied, "the next step is applied");
}

void unscales(Checks& c) {
  Training scaled_run({.policy = "float32"}, scaled("fixed=4096", "jmp")),
      plain({.policy = "float32"}, scaled("none", "nacre"));
  const Trainer::Report a = scaled_run.step(), b = plain.step();
  c.that(scaled_run.run().bytes("w1") == plain.run().bytes("w1"), "scaled by 2^12 and unscaled: the same update");
  c.same(a.norm, b.norm, "norm of the gradient");
}

// Without a scale, float16 gradients below the type's least number are 0.
void saves_small_gradients(Checks& c) {
  Training plain({.policy = "float16"}, scaled("none", "nacre")),
      with({.policy = "jmp(p=f32,c=f16,o=f16)"}, scaled("fixed=32768", "jmp"));
  plain.step();
  const std::vector<double> before = with.run().numbers("w1");
  c.that(with.step(0x1p-6f).applied, "a step under a scale of 2^15");
  c.that(before != with.run().numbers("w1"), "moves the parameters");
}

void only_reals(Checks& c) {
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
  const Made made({.policy = "half"}, graph);
  c.same(made.type("t"), "int32", "integers");
  c.same(made.types("a"), "float16 float16", "reals");
}

void prints(Checks& c) {
  c.same(policy_text(Made({.policy = "c=bf16,o=f32"}).policy("fc1")), "params=float32,compute=bfloat16,output=float32",
         "the policy that the file names");
  c.same(policy_text(Made({.policy = "half"}).policy("fc1")), "float16", "of three equal types");
}

const Capability kRows[] = {
    {"get_policy", "\"c=f16\" (params full, compute+output in f16)",
     [](Checks& c) {
       types(c, "c=f16", "float32", "float16", "float16"), types(c, "jmp(c=f16)", "float32", "float16", "float16");
     }},
    {"get_policy", "\"p=f16,c=f16\" (params, compute and output in f16)",
     [](Checks& c) { types(c, "p=f16,c=f16", "float16", "float16", "float16"); }},
    {"get_policy", "\"p=f16,c=bf16\" (params in f16, compute in bf16, output in bf16)",
     [](Checks& c) { types(c, "p=f16,c=bf16", "float16", "bfloat16", "bfloat16"); }},
    {"get_policy", "params defaults to f32, compute follows params and output follows compute",
     [](Checks& c) {
       types(c, "p=bf16", "bfloat16", "bfloat16", "bfloat16");
       types(c, "jmp(o=f16)", "float32", "float32", "float16");
     }},
    {"get_policy", "no part at all: params defaults to f32, and the others follow",
     [](Checks& c) { types(c, "jmp()", "float32", "float32", "float32"); }},
    {"get_policy", "key == \"p\" or key == \"params\" ... \"compute\" ... \"output\"",
     [](Checks& c) { types(c, "params=float32,compute=float16,output=float32", "float32", "float16", "float32"); }},
    {"get_policy", "a dtype (e.g. 'f32' or 'half') that all components of the policy should contain",
     [](Checks& c) {
       types(c, "f16", "float16", "float16", "float16"), types(c, "bf16", "bfloat16", "bfloat16", "bfloat16");
       types(c, "f32", "float32", "float32", "float32"), types(c, "f64", "float64", "float64", "float64");
     }},
    {"half_dtype", "return jnp.bfloat16 if on_tpu else jnp.float16",
     [](Checks& c) {
       types(c, "half", "float16", "float16", "float16"), types(c, "c=half", "float32", "float16", "float16");
     }},
    {"dtype_to_names", "jnp.float32: (\"full\", \"f32\", \"float32\")",
     [](Checks& c) {
       types(c, "full", "float32", "float32", "float32"), types(c, "p=full,c=bf16", "float32", "bfloat16", "bfloat16");
     }},
    {"get_policy", "for part in policy_name.split(\",\"): of a key given twice the last counts",
     [](Checks& c) { types(c, "c=f16,c=bf16", "float32", "bfloat16", "bfloat16"); }},
    {"get_policy", "Unknown key '{key}' in '{policy_name}' should be 'params', 'compute' or 'output'.",
     [](Checks& c) { refuses(c, {.policy = "q=f16"}, "UnknownKey", "'q'"); }, Kind::kRefused},
    {"parse_dtype", "Unknown dtype '{value}' must be full,half,float16,bfloat16 or a contraction thereof",
     [](Checks& c) { refuses(c, {.policy = "c=f8"}, "UnknownType", "'f8'"); }, Kind::kRefused},
    {"get_policy", "key, value = part.split(\"=\", 2): not of two parts",
     [](Checks& c) { refuses(c, {.policy = "p=f16,c"}, "NotKeyValue", "'c'"); }, Kind::kRefused},
    {"get_policy", "spaces are part of a key",
     [](Checks& c) { refuses(c, {.policy = "p=f16, c=f16"}, "UnknownKey", "' c'"); }, Kind::kRefused},
    {"Policy.cast_to_param", "Converts floating point values to the param dtype.",
     [](Checks& c) {
       c.same(Training({.policy = "p=bf16,c=f32"}).type("w1"), "bfloat16", "a parameter in training");
       c.same(Training({.policy = "c=bf16"}).type("w1"), "float32", "a parameter in training");
     }},
    {"Policy.cast_to_compute", "Converts floating point values to the compute dtype.",
     [](Checks& c) {
       c.same(Training({.policy = "c=bf16"}).types("fc1"), "bfloat16 bfloat16 bfloat16", "fc1 in training");
     }},
    {"Policy.cast_to_output", "Converts floating point values to the output dtype.",
     [](Checks& c) {
       const Made made({.set = {"fc1=c=bf16,o=f32"}});
       c.same(made.types("fc2"), "float32 float32 float32", "the layer behind one with output f32");
       c.that(made.types("fc1").starts_with("bfloat16"), "which computes in bfloat16");
     }},
    {"Policy.with_output_dtype", "dataclasses.replace(self, output_dtype=output_dtype)",
     [](Checks& c) { types(c, "mixed_bfloat16;output=float32", "float32", "bfloat16", "float32"); }},
    {"_cast_floating_to", "jnp.issubdtype(x.dtype, jnp.floating): other leaves stay", only_reals},
    {"Policy.__str__", "p={},c={},o={}", prints},
    {"NoOpLossScale", "No-op loss scale does nothing.",
     [](Checks& c) {
       c.same(Training({.policy = "jmp(c=f16)"}, scaled("none", "nacre")).scale(), 1.0f, "scale");
       Training training({.policy = "jmp(c=f16)"}, scaled("none", "nacre"));
       c.that(training.step().applied && training.scale() == 1, "and after a step");
     }},
    {"StaticLossScale", "Scales and unscales by a fixed constant.", unscales},
    {"StaticLossScale.adjust", "return self",
     [](Checks& c) { c.same(scale_after("FNIF", "fixed=64"), 64.0f, "scale after four steps"); }},
    {"DynamicLossScale", "tries to determine the largest loss scale value that will keep gradients finite",
     saves_small_gradients},
    {"DynamicLossScale",
     "period: int = 2000, factor: int = 2: every `period` steps by `factor` if the grads remain finite",
     [](Checks& c) {
       c.same(scale_after(std::string(1999, 'F'), "dynamic"), 32768.0f, "scale after 1999 steps");
       c.same(scale_after(std::string(2000, 'F'), "dynamic"), 65536.0f, "scale after 2000");
     }},
    {"DynamicLossScale", "otherwise it reduces the loss scale by `1 / factor` and resets the counter",
     [](Checks& c) {
       c.same(scale_after(std::string(1000, 'F') + "I" + std::string(1999, 'F'), "dynamic"), 16384.0f, "scale");
     }},
    {"DynamicLossScale", "loss_scale = max(1, loss_scale / factor)",
     [](Checks& c) { c.same(scale_after("NIN", "dynamic=2"), 1.0f, "scale after three steps from 2"); }},
    {"DynamicLossScale", "period, factor, min_loss_scale: fields of the class",
     [](Checks& c) {
       c.same(scale_after("FFF", "dynamic=8,period=3,factor=4"), 32.0f, "scale after three steps");
       c.same(scale_after("NNNN", "dynamic=8,min=0.5,factor=4"), 0.5f, "scale after four that are not finite");
     }},
    {"DynamicLossScale.adjust", "first_finite(self.loss_scale * self.factor, self.loss_scale)",
     [](Checks& c) {
       c.same(grown("jmp", 1.5e38f), 3e38f, "scale after 2000 steps from 1.5e38");
       c.same(grown("jmp", 2e38f), 2e38f, "from 2e38, whose double is infinite");
     }},
    {"all_finite", "Returns a scalar ndarray indicating whether the input arrays are finite.",
     [](Checks& c) {
       for (const float odd : {kInfinity, -kInfinity, kNan}) {
         Training training({.policy = "float32"}, scaled("dynamic", "jmp"));
         c.that(!training.step(0, odd).applied, "one number that is not finite makes the step so");
         c.same(training.scale(), 16384.0f, "scale");
       }
     }},
    {"select_tree", "Selects a pytree based on the given predicate: parameters and optimizer state from before",
     selects},
};

}  // namespace

Source jmp() { return {"jmp", kRows}; }

}  // namespace nacre::test::policy_sources

// Rows of claim policy_sources: tf.keras's experimental Policy, tensorflow/python/keras/mixed_precision/experimental/
// policy.py, and the loss scales that it takes, tensorflow/python/training/experimental/loss_scale.py.
#include <limits>

#include "tests/claims/policy_sources.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

void trains_with(Checks& c, const Wish& wish, float scale, LossScale kind) {
  Training training(wish);
  const std::string what = wish.policy + (wish.set.empty() ? "" : " " + wish.set[0]);
  c.same(training.step(0).loss_scale, scale, "scale of the first step of " + what);
  training.step(0, kNan);
  c.same(training.scale(), kind == LossScale::kDynamic ? scale / 2 : scale, "scale after a step with NaN");
}

float after(const std::string& steps, const std::string& loss_scale) { return scale_after(steps, loss_scale, "tf"); }

void warns(Checks& c, const std::string& policy, bool expected) {
  const PolicyRequest request = request_of({.policy = policy});
  c.same(double(request.warnings.size()), expected ? 1.0 : 0.0, "warnings of " + policy);
  if (expected)
    c.that(request.warnings[0].find("a loss scale serves float16 only") != std::string::npos, request.warnings[0]);
}

void skipped(Checks& c) {
  Training::Arguments arguments = scaled("dynamic", "tf");
  arguments.optimizer = "adam";
  Training training({.policy = "mixed_float16"}, arguments);
  training.step();
  const std::vector<std::byte> before(training.run().state().begin(), training.run().state().end());
  const Trainer::Report report = training.step(0x1p-4f, kInfinity);
  c.that(!report.applied, "the step is refused");
  const auto is_same = [&](const std::string& name) {
    const std::vector<uint8_t> now = training.run().bytes(name);
    Training again({.policy = "mixed_float16"}, arguments);
    again.step();
    return now == again.run().bytes(name);
  };
  for (const std::string& name : training.state(""))
    if (name.find("loss_scale") == std::string::npos)
      c.that(is_same(name), name + " is what it was, the count of steps too");
  c.that(!before.empty(), "there is a state");
}

const Capability kRows[] = {
    {"Policy",
     "Any dtype name, such as 'float32' or 'float64'. Both the variable and compute dtypes will be that dtype. No loss "
     "scaling is done by default.",
     [](Checks& c) {
       trains_with(c, {.policy = "float32"}, 1, LossScale::kNone),
           trains_with(c, {.policy = "float64"}, 1, LossScale::kNone);
     }},
    {"Policy", "With 'mixed_float16', a dynamic loss scale is used by default.",
     [](Checks& c) { trains_with(c, {.policy = "mixed_float16"}, 32768, LossScale::kDynamic); }},
    {"Policy", "'mixed_bfloat16' does no loss scaling by default, as loss scaling is unnecessary with bfloat16.",
     [](Checks& c) { trains_with(c, {.policy = "mixed_bfloat16"}, 1, LossScale::kNone); }},
    {"Policy.__init__",
     "Defaults to using no loss scaling unless `name` is \"mixed_float16\": \"auto\" in releases before",
     [](Checks& c) {
       trains_with(c, {.policy = "mixed_float16;loss_scale=auto"}, 32768, LossScale::kDynamic);
       trains_with(c, {.policy = "float16;loss_scale=auto"}, 1, LossScale::kNone);
       trains_with(c, {.policy = "bfloat16;loss_scale=auto"}, 1, LossScale::kNone);
     }},
    {"Policy.__init__", "an int (which uses a `FixedLossScale`)",
     [](Checks& c) {
       trains_with(c, {.policy = "mixed_float16;loss_scale=128"}, 128, LossScale::kFixed);
       trains_with(c, {.policy = "float16;loss_scale=64"}, 64, LossScale::kFixed);
     }},
    {"Policy.__init__", "or the string \"dynamic\" (which uses a `DynamicLossScale`)",
     [](Checks& c) { trains_with(c, {.policy = "float16;loss_scale=dynamic"}, 32768, LossScale::kDynamic); }},
    {"Policy.__init__", "loss_scale=None: no loss scaling",
     [](Checks& c) { trains_with(c, {.policy = "mixed_float16;loss_scale=none"}, 1, LossScale::kNone); }},
    {"Policy.__init__", "Creating a Policy with a loss scale is only useful for float16 policies. (a warning)",
     [](Checks& c) { warns(c, "bfloat16;loss_scale=8", true), warns(c, "mixed_float16;loss_scale=8", false); }},
    {"Policy",
     "a global policy ... or `dtype='float32'` can be passed to individual layers: Softmax should be done in float32",
     [](Checks& c) {
       const Made made({.policy = "mixed_float16", .set = {"softmax=float32"}});
       c.same(made.types("softmax"), "float32 float32", "softmax");
       c.same(made.types("fc1"), "float16 float16 float16", "fc1");
     }},
    {"Policy", "Layers which are not Models ignore the loss scale.",
     [](Checks& c) {
       trains_with(c, {.policy = "float32", .set = {"fc1=mixed_float16;loss_scale=16"}}, 16, LossScale::kFixed);
       trains_with(c, {.policy = "mixed_float16;loss_scale=none", .set = {"fc1=mixed_float16;loss_scale=16"}}, 1,
                   LossScale::kNone);
     },
     Kind::kDeparts, "a layer's loss scale is that of the training where the network's policy names none"},
    {"Policy", "A layer will cast its inputs to its compute dtype in TensorFlow 2.",
     [](Checks& c) {
       const Made made({.policy = "float32", .set = {"fc2=float64"}});
       c.same(made.types("fc2"), "float64 float64 float64", "fc2, behind a layer of float32");
       c.same(made.types("softmax"), "float32 float32", "the layer behind it");
     }},
    {"Policy._parse_name", "Policies ending in '_float32_vars' have been removed from TensorFlow.",
     [](Checks& c) {
       for (const char* name : {"infer_float32_vars", "float16_with_float32_vars", "infer"})
         refuses(c, {.policy = name}, "CannotConvert", "cannot convert");
     },
     Kind::kRefused},
    {"Policy.__init__", "'name' must be a string",
     [](Checks& c) {
       refuses(c, {.file = R"({"default": {"policy": 16}})"}, "WrongType", "expected the name of a policy");
     },
     Kind::kRefused},
    {"Policy.get_config", "{'name': self.name}, of class_name \"Policy\" or \"PolicyV1\"",
     [](Checks& c) {
       for (const char* name : {"Policy", "PolicyV1"})
         trains_with(c,
                     {.file = R"({"class_name": ")" + std::string(name) + R"(", "config": {"name": "mixed_float16"}})"},
                     32768, LossScale::kDynamic);
     }},
    {"PolicyV1.get_config", "config['loss_scale'] = keras_loss_scale_module.serialize(self.loss_scale)",
     [](Checks& c) {
       const auto file = [](const std::string& scale) {
         return Wish{.file = R"({"class_name": "PolicyV1", "config": {"name": "mixed_float16", "loss_scale": )" +
                             scale + "}}"};
       };
       trains_with(c, file(R"({"class_name": "FixedLossScale", "config": {"loss_scale_value": 128}})"), 128,
                   LossScale::kFixed);
       trains_with(c, file(R"({"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 1024.0}})"), 1024,
                   LossScale::kDynamic);
       trains_with(c, file("null"), 1, LossScale::kNone);
     }},
    {"FixedLossScale.__init__", "loss_scale_value must be at least 1.",
     [](Checks& c) {
       for (const char* scale : {"0", "0.5", "-8"})
         refuses(c, {.policy = std::string("mixed_float16;loss_scale=") + scale}, "BadField",
                 "a finite number of at least 1");
     },
     Kind::kRefused},
    {"FixedLossScale.__init__", "loss_scale_value must be a Python int or float.",
     [](Checks& c) {
       refuses(c, {.policy = "mixed_float16;loss_scale=static"}, "BadField", "loss_scale cannot be 'static'");
       refuses(c, {.file = R"({"default": {"policy": "mixed_float16", "loss_scale": [8]}})"}, "BadField",
               "loss_scale cannot be");
     },
     Kind::kRefused},
    {"FixedLossScale", "The loss scale is not updated for the lifetime of instances of this class.",
     [](Checks& c) { c.same(after("FFNFIF", "fixed=128"), 128.0f, "scale after six steps"); }},
    {"FixedLossScale.update", "return control_flow_ops.no_op(), True: gradients that are not finite are applied",
     [](Checks& c) {
       Training training({.policy = "float32"}, scaled("fixed=8", "tf"));
       const std::vector<uint8_t> before = training.run().bytes("w1");
       c.that(!training.step(0x1p-4f, kNan).applied, "the step is refused");
       c.that(before == training.run().bytes("w1"), "parameters stay");
     },
     Kind::kDeparts, "no step that is not finite is applied, under any rule: a NaN in a parameter stays for ever"},
    {"DynamicLossScale.__init__", "initial_loss_scale=2 ** 15",
     [](Checks& c) { c.same(after("", "dynamic"), 32768.0f, "scale at first"); }},
    {"DynamicLossScale.__init__",
     "increment_period=2000, multiplier=2.: Every N steps that the gradients are finite, the loss scale is "
     "increased by some factor.",
     [](Checks& c) {
       c.same(after(std::string(1999, 'F'), "dynamic"), 32768.0f, "scale after 1999 steps");
       c.same(after(std::string(2000, 'F'), "dynamic"), 65536.0f, "scale after 2000");
     }},
    {"DynamicLossScale.__init__",
     "increment_period: Increases loss scale every `increment_period` consecutive steps; "
     "multiplier: The multiplier to use when increasing or decreasing the loss scale.",
     [](Checks& c) {
       c.same(scale_after("FF", "dynamic=64,period=2,factor=4", "tf"), 256.0f, "scale after two steps");
       c.same(scale_after("FFN", "dynamic=64,period=2,factor=4", "tf"), 64.0f, "and one that is not finite");
     }},
    {"DynamicLossScale.__init__", "If a nonfinite gradient is encountered, the count is reset back to zero.",
     [](Checks& c) {
       c.same(after(std::string(1999, 'F') + "N" + std::string(1999, 'F'), "dynamic"), 16384.0f,
              "scale after a NaN in between");
     }},
    {"DynamicLossScale",
     "if a NaN or Inf gradient is found, the gradients for that step are not applied, and the loss scale is "
     "decreased by the factor",
     [](Checks& c) {
       skipped(c);
       c.same(after("I", "dynamic"), 16384.0f, "scale after an infinity");
       c.same(after("N", "dynamic"), 16384.0f, "scale after a NaN");
     }},
    {"LossScale",
     "loss *= loss_scale; grads = gradients(loss, vars); grads /= loss_scale: the scale of this step, though it "
     "changes",
     [](Checks& c) {
       Training changing({.policy = "float32"}, scaled("dynamic,period=1", "tf")),
           plain({.policy = "float32"}, scaled("none", "nacre"));
       for (int i = 0; i < 4; ++i) changing.step(), plain.step();
       c.same(changing.scale(), 524288.0f, "scale after four steps that each double it");
       c.that(changing.run().bytes("w1") == plain.run().bytes("w1"), "the parameters of a training without a scale");
     }},
    {"DynamicLossScale.update", "new_loss_scale = math_ops.maximum(self._current_loss_scale / self._multiplier, 1)",
     [](Checks& c) { c.same(after("NNNN", "dynamic=4"), 1.0f, "scale after four steps with NaN from 4"); }},
    {"loss_scale._assign_if_finite", "Assigns a value to a variable if the value is finite.",
     [](Checks& c) {
       c.same(grown("tf", 1.5e38f), 3e38f, "scale after 2000 steps from 1.5e38");
       c.same(grown("tf", 2e38f), 2e38f, "from 2e38, whose double is infinite");
     }},
};

}  // namespace

Source tensorflow_policies() { return {"tf.keras's experimental Policy", kRows}; }

}  // namespace nacre::test::policy_sources

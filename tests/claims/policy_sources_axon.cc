// Rows of claim policy_sources: Axon's mixed precision, lib/axon/mixed_precision.ex, lib/axon/loss_scale.ex and
// lib/axon/loop.ex.
#include <limits>

#include "tests/claims/policy_sources.h"
#include "tools/base/error.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Checks the type of the stored parameters, and of the operands and the output of fc1 when it computes.
void types(Checks& c, const std::string& policy, const std::string& params, const std::string& compute,
           const std::string& output) {
  const Training training({.policy = policy});
  c.same(training.type("w1"), params, "stored parameters under " + policy);
  c.same(training.types("fc1").substr(0, compute.size()), compute, "type in which fc1 computes");
  const Made made({.policy = policy});
  const Policy written = made.policy("fc1");
  c.same(std::string(name_of(written.variable)), params, "params in the file");
  c.same(std::string(name_of(written.compute)), compute, "compute in the file");
  c.same(std::string(name_of(written.output)), output, "output in the file");
}

// Only fc2 computes in float16, and it gives out float32: the layer after it gets rounded numbers in float32.
void casts_back(Checks& c) {
  const Wish wish = {.set = {"fc2=axon(params=float32,compute=float16,output=float32)"}};
  const Made made(wish);
  c.that(made.types("fc2").starts_with("float16 float16"), "parameters and inputs are cast for fc2");
  c.same(made.types("softmax"), "float32 float32", "its output is cast back");
  const Made plain(Wish{});
  const std::vector<float> x = three_classes(5, 1, 6).x;
  c.that(made.run(x) != plain.run(x), "numbers are rounded in between");
}

void statistics_stay(Checks& c) {
  const Training training({.policy = "axon(compute=float16)"}, {}, convolutional(4));
  for (const char* name : {"bn1.mean", "bn1.variance"}) c.same(training.type(name), "float32", name);
}

void optimizer_state(Checks& c) {
  Training::Arguments arguments;
  arguments.optimizer = "adam";
  const Training training({.policy = "axon(compute=bfloat16)"}, arguments);
  for (const char* name : {"w1/first_moment", "w1/second_moment", "w1/gradient"})
    c.same(training.type(name), "float32", name);
}

float scale_after(const std::string& steps, const std::string& loss_scale) {
  return policy_sources::scale_after(steps, loss_scale, "axon");
}

// An infinite target makes gradients infinite, without any NaN.
struct Infinite {
  Training training;

  explicit Infinite(const std::string& loss_scale = "dynamic")
      : training({.policy = "float32"}, arguments(loss_scale), dense(2, 2, {1, 0, 0, 1})) {}
  static Training::Arguments arguments(const std::string& loss_scale) {
    Training::Arguments a = scaled(loss_scale, "axon");
    a.loss = "squared_error";
    return a;
  }
  Trainer::Report step(float target) {
    training.run().write(0, std::vector<float>{1, 1});
    training.run().write(1, std::vector<float>{target, target});
    training.run().accumulate();
    return training.run().commit(0x1p-10f);
  }
};

void overflow(Checks& c) {
  Infinite infinite;
  const std::vector<uint8_t> before = infinite.training.run().bytes("w");
  c.that(!infinite.step(-kInfinity).applied, "the step is refused");
  c.that(before == infinite.training.run().bytes("w"), "parameters stay");
  c.same(infinite.training.scale(), 16384.0f, "the scale falls as Axon's");
  c.that(infinite.step(1.5f).applied, "and training goes on");
}

void not_a_number(Checks& c) {
  Training training({.policy = "float32"}, scaled("dynamic", "axon"));
  const std::vector<uint8_t> before = training.run().bytes("w1");
  c.that(!training.step(0x1p-4f, kNan).applied, "the step is refused");
  c.that(before == training.run().bytes("w1"), "parameters stay");
}

void unscaled_loss(Checks& c) {
  Training one({.policy = "float32"}, scaled("none", "nacre")),
      large({.policy = "float32"}, scaled("fixed=1024", "axon"));
  const Trainer::Report a = one.step(), b = large.step();
  c.same(b.loss, a.loss, "loss that is reported under a scale of 1024");
  c.that(one.run().bytes("w1") == large.run().bytes("w1"), "the same update");
}

const Capability kRows[] = {
    {"create_policy", "`params` - parameter precision policy. Defaults to `{:f, 32}`",
     [](Checks& c) {
       types(c, "axon(params=bfloat16)", "bfloat16", "float32", "float32");
       types(c, "axon(compute=bfloat16)", "float32", "bfloat16", "float32");
     }},
    {"create_policy", "`compute` - compute precision policy. Defaults to `{:f, 32}`",
     [](Checks& c) { types(c, "axon(compute=float16)", "float32", "float16", "float32"); }},
    {"create_policy", "`output` - output precision policy. Defaults to `{:f, 32}`",
     [](Checks& c) { types(c, "axon(output=bfloat16)", "float32", "float32", "bfloat16"); }},
    {"create_policy, iex",
     "create_policy(params: {:f, 16}, output: {:f, 16}): %Policy{params: {:f, 16}, compute: {:f, 32}, output: {:f, "
     "16}}",
     [](Checks& c) { types(c, "axon(params=float16,output=float16)", "float16", "float32", "float16"); }},
    {"create_policy, iex",
     "create_policy(compute: {:bf, 16}): %Policy{params: {:f, 32}, compute: {:bf, 16}, output: {:f, 32}}",
     [](Checks& c) { types(c, "axon(compute=bf16)", "float32", "bfloat16", "float32"); }},
    {"create_policy", "types {:f, 64}",
     [](Checks& c) { types(c, "axon(params=f64,compute=f64,output=f64)", "float64", "float64", "float64"); }},
    {"create_policy", "no option at all: {:f, 32} for each",
     [](Checks& c) { types(c, "axon()", "float32", "float32", "float32"); }},
    {"create_policy", "types {:f, 16} and {:bf, 16}, as Elixir writes options",
     [](Checks& c) {
       types(c, "axon(params: {:f, 32}, compute: {:bf, 16}, output: {:f, 16})", "float32", "bfloat16", "float16");
       types(c, "axon(params={:f, 32}, compute={:f, 16})", "float32", "float16", "float32");
     }},
    {"create_policy of later versions", "params, compute and output default to nil: nothing is cast",
     [](Checks& c) {
       const Made made({.set = {"fc1=axon(output=bfloat16)", "fc2=axon(params=float32)"}});
       c.same(made.types("fc2").substr(0, 15), "float32 float32", "fc2, behind a layer that gives out bfloat16");
     },
     Kind::kDeparts, "as version 0.4: what is not said is {:f, 32}"},
    {"Axon.MixedPrecision",
     "The policy will cast parameters and inputs to `{:f, 16}` for intermediate computations in the model's forward "
     "pass before casting the output back to `{:f, 32}`.",
     casts_back},
    {"Axon.MixedPrecision", "The `params` policy dictates what type parameters should be stored as during training.",
     [](Checks& c) {
       c.same(Training({.policy = "axon(params=float16,compute=float32)"}).type("w2"), "float16", "w2");
       c.same(Training({.policy = "axon(compute=float16)"}).type("w2"), "float32", "w2");
     }},
    {"Axon.Loop.train_step", "gradients and the optimizer's state are in the type of the stored parameters",
     optimizer_state},
    {"Axon.Compiler", "a layer's state is not cast: running statistics stay as they are", statistics_stay},
    {"apply_policy", "Applies to every layer but batch norm: except: [:batch_norm]",
     [](Checks& c) {
       const Made made({.policy = "axon(compute=float16)", .except = {"batch_norm"}}, convolutional(1));
       c.that(made.policy("bn1").compute == ElementType::kFloat32, "bn1 is left alone");
       c.same(made.types("bn1"), "float32 float32", "the step of bn1");
       c.that(made.types("conv1").starts_with("float16 float16"), "conv1 is not");
     }},
    {"apply_policy", "Only applies to dense layers: only: [:dense]",
     [](Checks& c) {
       const Made made({.policy = "axon(compute=float16)", .only = {"dense"}}, convolutional(1));
       c.that(made.types("fc").starts_with("float16 float16"), "fc");
       c.same(made.types("conv1"), "float32 float32 float32", "conv1");
     }},
    {"apply_policy", "You may only use one of `:only`, `:except`, or a function",
     [](Checks& c) {
       refuses(c, {.policy = "axon(compute=float16)", .only = {"dense"}, .except = {"softmax"}}, "Contradiction",
               "were both given");
     },
     Kind::kRefused},
    {"apply_policy", "filter may be a function (of a layer)",
     [](Checks& c) {
       const Made made({.set = {"fc.*=axon(compute=float16)"}});
       c.that(made.types("fc1").starts_with("float16") && made.types("fc2").starts_with("float16"),
              "layers that a pattern matches");
       c.same(made.types("softmax"), "float32 float32", "softmax");
     },
     Kind::kDeparts, "layers are chosen by their name or a pattern of it, and by their op"},
    {"apply_policy", "a policy applied later takes the place of one applied before",
     [](Checks& c) {
       const Made made({.policy = "axon(compute=float16)", .set = {"fc2=axon(compute=bfloat16)"}});
       c.that(made.types("fc1").starts_with("float16") && made.types("fc2").starts_with("bfloat16"),
              "fc2 has the later one");
     }},
    {"apply_policy", "an op that no layer is: nothing happens",
     [](Checks& c) {
       refuses(c, {.policy = "axon(compute=float16)", .only = {"tanh"}}, "NoSuchLayer",
               "no layer of the network is 'tanh'");
     },
     Kind::kRefused, "a policy that would be that of no layer is refused"},
    {"create_policy", "an unknown option or type",
     [](Checks& c) {
       refuses(c, {.policy = "axon(parms=float16)"}, "UnknownKey", "parms");
       refuses(c, {.policy = "axon(compute=float8)"}, "UnknownType", "float8");
     },
     Kind::kRefused},
    {"Axon.LossScale.identity", "the default of Axon.Loop.trainer",
     [](Checks& c) {
       c.same(Training({.policy = "axon(compute=float16)"}).scale(), 32768.0f,
              "scale of a training that computes in float16");
       c.same(Training({.policy = "axon(compute=float16)"}, scaled("none", "nacre")).scale(), 1.0f,
              "and with --loss-scale none");
     },
     Kind::kDeparts, "a layer that computes in float16 trains with a dynamic scale unless another is asked for"},
    {"Axon.LossScale.static", "static(loss_scale): scale_static, unscale_static",
     [](Checks& c) { c.same(scale_after("FI", "fixed=8"), 8.0f, "scale after two steps"); }},
    {"Axon.LossScale.static", "static(loss_scale \\\\ 2 ** 15)",
     [](Checks& c) {
       std::string said;
       try {
         scale_after("", "fixed");
       } catch (const Error& error) {
         said = error.what();
       }
       c.that(said.find("fixed needs a scale") != std::string::npos, "says: " + said);
     },
     Kind::kRefused, "a fixed scale is written with its number, but for fastai's 512"},
    {"Axon.LossScale.dynamic", "@default_loss_scale 2 ** 15",
     [](Checks& c) { c.same(scale_after("", "dynamic"), 32768.0f, "scale at first"); }},
    {"Axon.LossScale.dynamic", "period: 2_000, factor: 2",
     [](Checks& c) {
       c.same(scale_after(std::string(1999, 'F'), "dynamic"), 32768.0f, "scale after 1999 steps");
       c.same(scale_after(std::string(2000, 'F'), "dynamic"), 65536.0f, "scale after 2000");
     }},
    {"Axon.LossScale.dynamic", "Nx.max(opts[:min_loss_scale], loss_scale / opts[:factor]), min_loss_scale: 1",
     [](Checks& c) {
       Infinite infinite("dynamic=2");
       for (int i = 0; i < 3; ++i) infinite.step(-kInfinity);
       c.same(infinite.training.scale(), 1.0f, "scale after three infinite steps from 2");
     }},
    {"Axon.LossScale.dynamic", "opts = keyword!(opts, period: 2_000, factor: 2, min_loss_scale: 1)",
     [](Checks& c) {
       c.same(scale_after("FFF", "dynamic=8,period=3,factor=4"), 32.0f, "scale after three steps");
       Infinite infinite("dynamic=8,min=2,factor=8");
       infinite.step(-kInfinity);
       c.same(infinite.training.scale(), 2.0f, "scale after an infinite step from 8");
     }},
    {"Axon.Loop.train_step", "update_optimizer_fn.(gradients, ...): the update is applied, infinite gradients too",
     overflow, Kind::kDeparts,
     "no step that is not finite is applied, under any rule: an infinity in a parameter stays for ever"},
    {"Axon.LossScale.is_finite", "Nx.all(Nx.logical_not(Nx.is_infinity(x))): NaN counts as finite, and is applied",
     not_a_number, Kind::kDeparts, "no step that is not finite is applied, under any rule"},
    {"Axon.Loop.train_step", "metrics see the unscaled loss; unscaled = x * (1 / loss_scale)", unscaled_loss},
};

}  // namespace

Source axon() { return {"Axon", kRows}; }

}  // namespace nacre::test::policy_sources

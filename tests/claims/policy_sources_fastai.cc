// Rows of claim policy_sources: fastai's Learner.to_fp16, fastai/callbacks/fp16.py of version 1 and
// fastai/callback/fp16.py of version 2.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/claims/policy_sources.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float scale_after(const std::string& steps, const std::string& loss_scale) {
  return policy_sources::scale_after(steps, loss_scale, "fastai");
}

const Wish kHalf = {.policy = "mixed_float16"};

void masters(Checks& c) {
  Training training(kHalf, scaled("dynamic", "fastai"));
  for (const char* name : {"w1", "b1", "w2", "b2"})
    c.same(training.type(name), "float32", std::string("master ") + name);
  c.same(training.types("fc1"), "float16 float16 float16", "what the model computes with");
}

void masters_serve(Checks& c) {
  Training training(kHalf, scaled("fixed=512", "fastai"));
  const std::vector<float> before = training.infer();
  for (int i = 0; i < 4; ++i) training.step(0.25f);
  c.that(before != training.infer(), "the model computes with the updated parameters");
}

void loss_in_float32(Checks& c) {
  const Training training(kHalf);
  c.same(training.type("loss_sum"), "float32", "the sum of the loss");
  bool found = false;
  for (const Node& node : training.model().gradients.nodes) {
    if (std::string(find_rule(node.op)->name).find("softmax_cross_entropy") == std::string::npos) continue;
    found = true;
    const Value& logits = training.model().gradients.values[size_t(node.inputs[0])];
    c.same(std::string(name_of(logits.type)), "float32", "what the loss reads");
  }
  c.that(found, "a step of the loss");
}

void batch_norms(Checks& c) {
  const Training training(kHalf, {}, convolutional(4));
  for (const char* name : {"bn1.scale", "bn1.bias", "bn1.mean", "bn1.variance"})
    c.same(training.type(name), "float32", name);
  const Training apart({.policy = "mixed_float16", .except = {"batch_norm"}}, {}, convolutional(4));
  bool found = false;
  for (const Node& node : apart.model().gradients.nodes)
    if (node.op == Op::kBatchNormTraining || node.op == Op::kBatchNorm) {
      found = true;
      const Value& x = apart.model().gradients.values[size_t(node.inputs[0])];
      c.same(std::string(name_of(x.type)), "float32", "input of the batch norm with --except batch_norm");
    }
  c.that(found, "a batch norm in training");
}

void clips(Checks& c) {
  Training::Arguments clipped = scaled("fixed=1024", "fastai");
  clipped.clip_norm = 0.01f;
  Training::Arguments unscaled = scaled("none", "nacre");
  unscaled.clip_norm = 0.01f;
  Training a({.policy = "float32"}, clipped), b({.policy = "float32"}, unscaled);
  const std::vector<double> before = a.run().numbers("w1");
  a.step(1);
  b.step(1);
  c.that(a.run().bytes("w1") == b.run().bytes("w1"), "clipped after unscaling: the scale changes nothing");
  double squares = 0;
  for (const char* name : {"w1", "b1", "w2", "b2"}) {
    Training fresh({.policy = "float32"}, unscaled);
    const std::vector<double> old = fresh.run().numbers(name), now = a.run().numbers(name);
    for (size_t i = 0; i < now.size(); ++i) squares += (now[i] - old[i]) * (now[i] - old[i]);
  }
  c.that(std::abs(std::sqrt(squares) - 0.01) < 1e-5, "a step of norm 0.01 over all parameters");
  c.that(!before.empty(), "parameters");
}

void skips(Checks& c) {
  Training::Arguments arguments = scaled("dynamic", "fastai");
  arguments.optimizer = "momentum";
  Training training({.policy = "float32"}, arguments);
  training.step();
  const std::vector<uint8_t> before = training.run().bytes("w1"), velocity = training.run().bytes("w1/velocity");
  c.that(!training.step(0x1p-4f, kNan).applied, "the step is refused");
  c.that(before == training.run().bytes("w1"), "parameters stay, though the momentum is not 0");
  c.that(velocity == training.run().bytes("w1/velocity"), "the momentum stays");
}

void at_scale_one(Checks& c) {
  Training training({.policy = "float32"}, scaled("dynamic=1", "fastai"));
  const std::vector<uint8_t> before = training.run().bytes("w1");
  c.that(!training.step(0x1p-4f, kNan).applied, "a step with NaN is refused");
  c.that(before == training.run().bytes("w1"), "parameters stay");
}

void largest_scale(Checks& c) {
  c.same(scale_after(std::string(1000, 'F'), "dynamic=8388608"), 16777216.0f, "scale after 1000 steps from 2^23");
  c.same(scale_after(std::string(1000, 'F'), "dynamic=16777216"), 16777216.0f, "and from 2^24");
}

void back_to_float32(Checks& c) {
  Training training(kHalf, scaled("dynamic", "fastai"));
  for (int i = 0; i < 4; ++i) training.step(0x1p-8f);
  bool beyond = false;
  for (const double w : training.run().numbers("w1")) beyond |= double(float(_Float16(w))) != w;
  c.that(beyond, "parameters in the state have more bits than float16 holds");
}

// The rule of PyTorch's GradScaler: starts at 2^16, is doubled after 2000 steps, and is halved.
void grad_scaler(Checks& c) {
  const auto after = [](const std::string& steps) {
    Training training({.policy = "float32"}, scaled("dynamic=65536", "tf"));
    for (const char step : steps) training.step(0, step == 'N' ? kNan : 0);
    return training.scale();
  };
  c.same(after("F"), 65536.0f, "scale at first");
  c.same(after("N"), 32768.0f, "after a step that is not finite");
  c.same(after(std::string(2000, 'F')), 131072.0f, "after 2000 steps");
}

void inputs_to_half(Checks& c) {
  const Made made(kHalf);
  c.same(made.type("x"), "float32", "the network's input");
  c.that(made.types("fc1").starts_with("float16"), "which is cast for the first layer");
}

void underflow(Checks& c) {
  // With a scale of 512 the reported norm is still that of the unscaled gradients.
  Training plain({.policy = "float16"}, scaled("none", "nacre"));
  Training with(kHalf, scaled("fixed=512", "fastai"));
  const Trainer::Report a = with.step(0x1p-6f), b = plain.step(0x1p-6f);
  c.that(a.applied && b.applied, "both steps are finite");
  c.same(a.loss_scale, 512.0f, "the scale that the gradients were made with");
  c.that(std::abs(a.norm - b.norm) < 0.05f * b.norm, "their norm is unscaled");
}

const Capability kRows[] = {
    {"v1 get_master",
     "Return two lists, one for the model parameters in FP16 and one for the master parameters in FP32.", masters},
    {"v1 master2model", "Copy `master_params` to `model_params`.", masters_serve},
    {"v1 on_train_begin", "Changes the optimizer so that the optimization step is done in FP32.",
     [](Checks& c) {
       Training::Arguments arguments = scaled("dynamic", "fastai");
       arguments.optimizer = "momentum";
       Training training(kHalf, arguments);
       c.same(training.type("w1/velocity"), "float32", "state of the optimizer");
       c.same(training.type("w1/gradient"), "float32", "gradient that it reads");
     }},
    {"v1 batch_to_half", "inputs of a batch in half precision", inputs_to_half},
    {"v1 on_loss_begin", "Convert half precision output to FP32 to avoid reduction overflow.", loss_in_float32},
    {"v1 on_backward_begin", "Scale gradients up by `self.loss_scale` to prevent underflow.", underflow},
    {"v1 on_backward_end", "Convert the gradients back to FP32 and divide them by the scale.",
     [](Checks& c) {
       Training a({.policy = "float32"}, scaled("fixed=512", "fastai")),
           b({.policy = "float32"}, scaled("none", "nacre"));
       a.step();
       b.step();
       c.that(a.run().bytes("w1") == b.run().bytes("w1"), "the update is that without a scale");
     }},
    {"fp16_utils.convert_network", "BatchNorm modules stay in float32", batch_norms},
    {"v1 MixedPrecision.__init__",
     "loss_scale = ifnone(loss_scale, ... 512): the default of a scale that is not dynamic",
     [](Checks& c) { c.same(scale_after("F", "fixed"), 512.0f, "scale"); }},
    {"v1 MixedPrecision.__init__", "loss_scale:float",
     [](Checks& c) { c.same(scale_after("FN", "fixed=128"), 128.0f, "scale"); }},
    {"v1 MixedPrecision.__init__", "ifnone(loss_scale, 2**16 if dynamic else 512)",
     [](Checks& c) { c.same(scale_after("", "dynamic"), 65536.0f, "scale at first"); }},
    {"v1 on_backward_end", "self.loss_scale /= 2; self.noskip = 0",
     [](Checks& c) {
       c.same(scale_after("N", "dynamic"), 32768.0f, "scale after an overflow");
       c.same(scale_after(std::string(999, 'F') + "N" + std::string(999, 'F'), "dynamic"), 32768.0f,
              "the count begins anew");
     }},
    {"v1 on_backward_end", "max_noskip:int=1000: self.loss_scale *= 2; self.noskip = 0",
     [](Checks& c) {
       c.same(scale_after(std::string(999, 'F'), "dynamic"), 65536.0f, "scale after 999 steps");
       c.same(scale_after(std::string(1000, 'F'), "dynamic"), 131072.0f, "scale after 1000");
     }},
    {"v1 MixedPrecision.__init__", "max_noskip:int, max_scale:float: arguments",
     [](Checks& c) {
       c.same(scale_after("FFF", "dynamic,period=3"), 131072.0f, "scale after three steps");
       c.same(scale_after("FFFFFF", "dynamic,period=3,max=131072"), 131072.0f, "and at its end");
     }},
    {"v1 to_fp16", "max_scale:float=2**24", largest_scale},
    {"v1 grad_overflow", "s == float('inf') or s == float('-inf') or s != s",
     [](Checks& c) {
       for (const float odd : {std::numeric_limits<float>::infinity(), kNan}) {
         Training training({.policy = "float32"}, scaled("dynamic", "fastai"));
         training.step(0, odd);
         c.same(training.scale(), 32768.0f, "scale");
       }
     }},
    {"v1 on_backward_end",
     "The step will be skipped since we don't update the master grads so they are all None or zero: momentum and "
     "decay still move them",
     skips, Kind::kDeparts, "a skipped step moves nothing at all"},
    {"v1 on_backward_end", "overflow at a scale of 1 is not looked at, and NaN reaches the masters", at_scale_one,
     Kind::kDeparts, "no step that is not finite is applied, under any rule"},
    {"v1 to_fp16, clip", "clip_grad_norm_(group, self.clip): after unscaling, for each group of parameters", clips,
     Kind::kDeparts, "--clip-norm is of all parameters together; after unscaling"},
    {"v1 get_master, flat_master", "one vector of all master parameters of a group",
     [](Checks& c) {
       Training training(kHalf, scaled("dynamic", "fastai"));
       const TensorRecord* first = nullptr;
       for (uint32_t id = 0; id < training.run().model().model().tensors().size(); ++id) {
         const TensorRecord& r = training.run().model().model().tensors()[id];
         if (r.region != Region::kStep || r.alias_of == kNoIndex) continue;
         first = first == nullptr ? &r : first;
         c.that(r.alias_of == first->alias_of, training.run().model().tensor_name(id) + " is a part of one block");
       }
     },
     Kind::kDeparts, "gradients lie in one block always, masters where the file has them"},
    {"to_fp32", "Put the model back in FP32", back_to_float32},
    {"v2 MixedPrecision.__init__", "self.loss_scale = max_loss_scale if dynamic else loss_scale; max_loss_scale=2.**24",
     [](Checks& c) {
       Training training({.policy = "float32"}, scaled("dynamic=16777216", "fastai"));
       c.same(training.step(0).loss_scale, 16777216.0f, "scale of the first step");
       training.step(0, kNan);
       c.same(training.scale(), 8388608.0f, "scale after an overflow");
     }},
    {"v2 MixedPrecision.__init__", "scale_wait=500, div_factor=2.",
     [](Checks& c) {
       c.same(scale_after(std::string(500, 'F'), "dynamic,period=500"), 131072.0f, "scale after 500 steps");
       c.same(scale_after("N", "dynamic,factor=4"), 16384.0f, "scale after an overflow, divided by 4");
     }},
    {"v2 before_step", "raise CancelBatchException() #skip step and zero_grad", skips},
    {"v2 NativeMixedPrecision", "Mixed precision training using Pytorch's `autocast` and `GradScaler`", grad_scaler},
    {"v2 after_pred", "Put the output back to FP32 so that the loss is computed in FP32", loss_in_float32},
    {"v2 after_batch", "Ensure loss is logged correctly",
     [](Checks& c) {
       Training a({.policy = "float32"}, scaled("fixed=512", "fastai")),
           b({.policy = "float32"}, scaled("none", "nacre"));
       c.same(a.step().loss, b.step().loss, "reported loss under a scale");
     }},
};

}  // namespace

Source fastai() { return {"fastai's to_fp16", kRows}; }

}  // namespace nacre::test::policy_sources

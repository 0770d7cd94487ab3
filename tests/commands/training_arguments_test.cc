// Tests the options of a training: each changes the training as it says, and an option that would do nothing is
// refused.
#include "tools/commands/training_arguments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

TrainingArguments with(const std::function<void(TrainingArguments&)>& change) {
  TrainingArguments a;
  a.loss = "softmax_cross_entropy";
  change(a);
  return a;
}

// Expects a refusal that names the option.
void expect_refusal(const std::string& option, const std::function<void(TrainingArguments&)>& change,
                    const PolicyLossScale& policies = {}) {
  const TrainingArguments a = with(change);
  try {
    parse_training(a, policies);
    ADD_FAILURE() << "taken: " << training_text(a);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kUsage);
    EXPECT_NE(std::string(error.what()).find(option), std::string::npos) << error.what();
  }
}

TEST(training_arguments, losses_have_their_fields) {
  const auto loss = [](const std::string& text) {
    return parse_training(with([&](auto& a) { a.loss = text; }), {}).loss;
  };
  EXPECT_EQ(loss("huber,delta=2.5").delta, 2.5f);
  EXPECT_EQ(loss("dense_cross_entropy,label_smoothing=1").label_smoothing, 1);
  EXPECT_FALSE(loss("softmax_cross_entropy").ignores);
  for (const int32_t index :
       {-100, -1, 0, 16777217, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    const LossOptions o = loss("softmax_cross_entropy,ignore_index=" + std::to_string(index) + ",label_smoothing=0.25");
    EXPECT_TRUE(o.ignores);
    EXPECT_EQ(o.ignore_index, index);
    EXPECT_EQ(o.label_smoothing, 0.25f);
  }
  for (const char* bad : {"", "softmax", "softmax_cross_entropy,delta=1", "softmax_cross_entropy,ignore_index=1.5",
                          "softmax_cross_entropy,ignore_index=2147483648",
                          "softmax_cross_entropy,ignore_index=", "softmax_cross_entropy,label_smoothing=1.1",
                          "softmax_cross_entropy,label_smoothing=nan", "dense_cross_entropy,ignore_index=1",
                          "huber,delta=0", "huber,delta=-1", "huber,delta=inf", "huber,delta", "huber,"})
    expect_refusal("--loss", [&](auto& a) { a.loss = bad; });
}

TEST(training_arguments, optimizers_have_their_fields) {
  const auto optimizer = [](const std::string& text) {
    return parse_training(with([&](auto& a) { a.optimizer = text; }), {}).optimizer;
  };
  const OptimizerOptions adam = optimizer("adam,beta1=0,beta2=0.5,epsilon=1e-7,weight_decay=0.01");
  EXPECT_EQ(adam.kind, Optimizer::kAdam);
  EXPECT_EQ(adam.beta1, 0);
  EXPECT_EQ(adam.beta2, 0.5f);
  EXPECT_EQ(adam.epsilon, 1e-7f);
  EXPECT_EQ(adam.weight_decay, 0.01f);
  EXPECT_EQ(adam.decay_all, 0);
  EXPECT_EQ(optimizer("adamw,weight_decay=0.1,decay_all=1").decay_all, 1);
  EXPECT_EQ(optimizer("momentum,momentum=1").momentum, 1);
  EXPECT_EQ(optimizer("rmsprop,alpha=0.9").alpha, 0.9f);
  EXPECT_EQ(optimizer("rmsprop").epsilon_in_root, 0);
  EXPECT_EQ(optimizer("adagrad,epsilon_in_root=1").epsilon_in_root, 1);
  for (const char* bad :
       {"", "sdg", "adam,beta1=1", "adam,beta2=1", "adam,beta1=-0.1", "adam,epsilon=0", "adam,beta3=0.5", "adam,",
        "adam,beta1", "adam,beta1=", "adam,beta1=0.9x", "momentum,momentum=1.1", "nesterov,momentum=nan",
        "rmsprop,alpha=1", "adagrad,epsilon=0", "adam,epsilon_in_root=1", "sgd,momentum=0.9", "adam,weight_decay=-1"})
    expect_refusal("--optimizer", [&](auto& a) { a.optimizer = bad; });
}

TEST(training_arguments, a_loss_scale_is_one_of_its_rule) {
  const auto scale = [](const std::string& text, bool float16 = false) {
    return parse_training(with([&](auto& a) { a.loss_scale = text; }), {.float16 = float16, .origin = {}}).loss_scale;
  };
  EXPECT_EQ(scale("auto").kind, LossScale::kNone);
  EXPECT_EQ(scale("auto", true).kind, LossScale::kDynamic);
  EXPECT_EQ(scale("none", true).kind, LossScale::kNone);
  EXPECT_EQ(scale("fixed=128").initial, 128);
  EXPECT_EQ(scale("dynamic=1024").initial, 1024);
  for (const char* bad : {"", "fixed", "fixed=", "fixed=3", "none=4", "auto=4", "dynamic=7", "dynamic=x", "other"})
    expect_refusal("--loss-scale", [&](auto& a) { a.loss_scale = bad; });
  expect_refusal("--loss-scale-rule", [](auto& a) { a.loss_scale_rule = "none"; });
  try {  // the range is one of the dynamic scale alone
    scale("fixed=3");
    ADD_FAILURE() << "fixed=3 is taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a power of two such as 128"), std::string::npos) << error.what();
  }
  EXPECT_EQ(scale("fixed=33554432").initial, 33554432);
}

TEST(training_arguments, a_dynamic_loss_scale_has_the_fields_of_its_rule) {
  const auto scale = [](const std::string& text, const std::string& rule) {
    return parse_training(with([&](auto& a) { a.loss_scale = text, a.loss_scale_rule = rule; }), {}).loss_scale;
  };
  const LossScaler nacre = scale("dynamic=1024,period=10,factor=4,min=4,max=65536", "nacre");
  EXPECT_EQ(nacre.initial, 1024);
  EXPECT_EQ(nacre.period, 10u);
  EXPECT_EQ(nacre.factor, 4);
  EXPECT_EQ(nacre.min, 4);
  EXPECT_EQ(nacre.max, 65536);
  EXPECT_EQ(scale("dynamic,period=500", "keras").period, 500u);
  EXPECT_EQ(scale("dynamic,factor=1.5", "tf").factor, 1.5f);
  EXPECT_EQ(scale("dynamic,min=0.25", "jmp").min, 0.25f);
  EXPECT_EQ(scale("dynamic,max=1e6", "fastai").max, 1e6f);
  const std::pair<const char*, const char*> bad[] = {
      {"dynamic,period=0", "nacre"}, {"dynamic,period=1.5", "tf"},   {"dynamic,factor=1", "tf"},
      {"dynamic,factor=3", "nacre"}, {"dynamic,min=65536", "nacre"}, {"dynamic,factor=4", "keras"},
      {"dynamic,min=1", "tf"},       {"dynamic,max=4", "jmp"},       {"fixed=8,period=4", "nacre"},
      {"none,period=4", "nacre"},    {"dynamic,periods=4", "nacre"}, {"dynamic,period", "nacre"}};
  for (const auto& [text, rule] : bad)
    expect_refusal("--loss-scale", [&, t = text, r = rule](auto& a) { a.loss_scale = t, a.loss_scale_rule = r; });
}

// A policy names the loss scale. --loss-scale replaces it, and a message says so. A float16 layer whose policy names
// none gets a dynamic scale.
TEST(training_arguments, a_loss_scale_is_that_of_the_policies) {
  const auto scale = [](const PolicyLossScale& policies, const std::string& text = "auto") {
    return parse_training(with([&](auto& a) { a.loss_scale = text; }), policies).loss_scale;
  };
  const auto note = [](const PolicyLossScale& policies, const std::string& text) {
    return loss_scale_note(with([&](auto& a) { a.loss_scale = text; }), policies);
  };
  const PolicyLossScale fixed = {true, LossScale::kFixed, 128, true, "--policy 'x'"};
  const PolicyLossScale dynamic = {true, LossScale::kDynamic, 0, true, "--policy 'x'"};
  const PolicyLossScale none = {true, LossScale::kNone, 0, true, "--policy 'x'"};
  EXPECT_EQ(scale(fixed).kind, LossScale::kFixed);
  EXPECT_EQ(scale(fixed).initial, 128);
  EXPECT_EQ(scale(dynamic).kind, LossScale::kDynamic);
  EXPECT_EQ(scale(dynamic).initial, 32768);
  EXPECT_EQ(scale(none).kind, LossScale::kNone);
  EXPECT_EQ(scale(none, "fixed=64").initial, 64);
  EXPECT_EQ(note(fixed, "auto"), "");
  EXPECT_EQ(note(fixed, "fixed=128"), "");
  EXPECT_EQ(note({}, "dynamic"), "");
  EXPECT_EQ(note(fixed, "none"), "training: --loss-scale none takes the place of fixed=128, which --policy 'x' names");
  expect_refusal("--policy 'x'", [](auto&) {}, {true, LossScale::kFixed, 3, true, "--policy 'x'"});
  // fastai's own fixed scale is 512. For the other rules a fixed scale has no default.
  EXPECT_EQ(parse_training(with([](auto& a) { a.loss_scale = "fixed", a.loss_scale_rule = "fastai"; }), {})
                .loss_scale.initial,
            512);
}

TEST(training_arguments, options_that_would_do_nothing_are_refused) {
  expect_refusal("--lora-alpha", [](auto& a) { a.lora_rank = 2, a.lora_alpha = NAN; });
  expect_refusal("--train-biases", [](auto& a) { a.lora_rank = 2, a.biases_only = true; });
  expect_refusal("--moments", [](auto& a) { a.optimizer = "sgd", a.moments = "bfloat16"; });
  // 0.997 v rounds to v if v's fraction is near 1.
  for (const char* optimizer : {"adam", "adamw,beta2=0.997", "rmsprop,alpha=0.999"})
    expect_refusal("--moments", [&](auto& a) { a.optimizer = optimizer, a.moments = "bfloat16"; });
  expect_refusal("--moments", [](auto& a) { a.moments = "float16"; });
  expect_refusal("--no-decay", [](auto& a) { a.no_decay = {"fc1"}; });
  EXPECT_EQ(parse_training(with([](auto& a) { a.lora_rank = 2, a.lora_alpha = 8; }), {}).adapters.alpha, 8);
  EXPECT_EQ(parse_training(with([](auto& a) { a.optimizer = "adam,beta2=0.99", a.moments = "bfloat16"; }), {})
                .optimizer.moments,
            ElementType::kBfloat16);
  EXPECT_EQ(parse_training(with([](auto& a) { a.optimizer = "sgd,weight_decay=0.1", a.no_decay = {"fc1"}; }), {})
                .optimizer.no_decay.size(),
            1u);
}

TEST(training_arguments, an_immediate_update_knows_no_sum) {
  expect_refusal("--update immediate", [](auto& a) { a.immediate = true, a.loss_scale = "dynamic"; });
  expect_refusal("--update immediate", [](auto& a) { a.immediate = true, a.clip_norm = 1; });
  expect_refusal("--clip-norm", [](auto& a) { a.clip_norm = -1; });
  expect_refusal("--clip-norm", [](auto& a) { a.clip_norm = 0; });
  expect_refusal("--clip-value", [](auto& a) { a.clip_value = NAN; });
  expect_refusal("--optimizer", [](auto& a) { a.optimizer = "adam,beta1=0.8,beta1=0.9"; });
  expect_refusal("--batch-norm-momentum", [](auto& a) { a.batch_norm_momentum = 1; });
  expect_refusal("--arena-limit", [](auto& a) { a.arena_limit = "1x"; });
}

TEST(training_arguments, ranges_that_are_trained_or_stay_have_no_running_mean) {
  expect_refusal("--range-momentum", [](auto& a) { a.range_momentum = 1; });
  expect_refusal("--range-momentum", [](auto& a) { a.range_momentum = 0.5f, a.learned_ranges = true; });
  expect_refusal("--freeze-ranges", [](auto& a) { a.freeze_ranges = 10, a.learned_ranges = true; });
  expect_refusal("--freeze-ranges", [](auto& a) { a.freeze_ranges = 10, a.codes = true; });
  const TrainingArguments asked = with([](auto& a) { a.range_momentum = 0.5f, a.freeze_ranges = 10; });
  EXPECT_EQ(parse_training(asked, {}).quantizers.range_momentum, 0.5f);
  EXPECT_EQ(parse_training(asked, {}).quantizers.freeze_steps, 10u);
  EXPECT_EQ(training_text(asked), "--train softmax_cross_entropy --range-momentum 0.5 --freeze-ranges 10");
}

// The text names only options that differ from the defaults. It decides whether a checkpoint belongs to this
// training.
TEST(training_arguments, are_written_as_they_are_typed) {
  EXPECT_EQ(training_text(with([](auto&) {})), "--train softmax_cross_entropy");
  EXPECT_EQ(training_text(with([](auto& a) {
              a.optimizer = "adam", a.layers = {"fc1", "fc2"}, a.last_layers = 2, a.biases_only = true, a.lora_rank = 3,
              a.lora_alpha = 8, a.frozen_batch_norm = true;
              a.no_decay = {"x"}, a.clip_norm = 1, a.clip_value = 2, a.moments = "bfloat16", a.loss_scale = "none",
              a.loss_scale_rule = "tf";
              a.batch_norm_momentum = 0.5f, a.unbiased_variance = true, a.seed = 7, a.immediate = true,
              a.arena_limit = "64K";
            })),
            "--train softmax_cross_entropy --optimizer adam --train-layers fc1 --train-layers fc2 --train-last 2 "
            "--train-biases --lora 3 --lora-alpha 8 "
            "--freeze-batch-norm --no-decay x --clip-norm 1 --clip-value 2 --moments bfloat16 --loss-scale none "
            "--loss-scale-rule tf "
            "--batch-norm-momentum 0.5 --unbiased-variance --seed 7 --update immediate --arena-limit 64K");
}

}  // namespace
}  // namespace nacre::tools

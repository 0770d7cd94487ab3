// Holds the options of a training run as the command line gives them, and parses them.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/policies/policy_loss_scale.h"

namespace nacre::tools {

constexpr float kNoClip = std::numeric_limits<float>::infinity();

struct TrainingArguments {
  // --train or --loss: one of loss_names(); fields such as ",label_smoothing=0.1", ",ignore_index=-1", ",reduction=sum"
  std::string loss;
  std::string loss_option = "--loss";  // the option's name in refusals; "--train" in nacre convert
  std::string optimizer = "momentum";  // "adam", or "adam,beta1=0.9,epsilon=1e-7"
  std::vector<std::string> layers;     // --train-layers, each a pattern
  int last_layers = 0;                 // --train-last
  bool biases_only = false;            // --train-biases
  std::string output;                  // --train-output: the output that the loss judges, if there are several
  std::vector<std::string> channels;   // --train-channels, each PATTERN=SHARE or PATTERN=FIRST:END
  bool codes = false;                  // --train-codes
  std::string share;                   // --train-share: dynamic=X
  int lora_rank = 0;                   // --lora: adapters beside these layers are trained in their place
  float lora_alpha = 16;               // --lora-alpha
  bool frozen_batch_norm = false;      // --freeze-batch-norm
  std::vector<std::string> unfreeze;   // --unfreeze, each a pattern, or "all"
  std::vector<std::string> no_decay;   // --no-decay, each a pattern
  float clip_norm = kNoClip, clip_value = kNoClip;
  std::string moments = "float32";  // or bfloat16
  // none, fixed, fixed=S, dynamic, dynamic=S. dynamic also takes ",period=N" and those of the fields factor, min and
  // max that the rule has. auto: the loss scale of the policies, else dynamic if a layer computes in float16
  std::string loss_scale = "auto";
  std::string loss_scale_rule = "nacre";  // or tf, keras, jmp, fastai, axon
  float batch_norm_momentum = 0.99f;
  bool unbiased_variance = false;
  uint64_t seed = 1;
  bool immediate = false;
  bool learned_ranges = false;  // --learned-ranges
  float range_momentum = 0.9f;  // --range-momentum
  uint32_t freeze_ranges = 0;   // --freeze-ranges: steps; 0: never
  std::string arena_limit;      // bytes, with K, M
};

// Reads the options. `policies`: the loss scale of the layers' policies. Throws an Error that names the option and says
// what is wrong with its value.
TrainingOptions parse_training(const TrainingArguments& arguments, const PolicyLossScale& policies);

// Returns a sentence if --loss-scale replaces the loss scale of the policies; else "".
std::string loss_scale_note(const TrainingArguments& arguments, const PolicyLossScale& policies);

// Returns "--train LOSS" and the options that differ from their defaults, as a user would type them, for metadata.
std::string training_text(const TrainingArguments& arguments);

std::vector<std::string> loss_names();
std::vector<std::string> optimizer_names();

}  // namespace nacre::tools

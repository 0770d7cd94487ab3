// Options of a training run: the loss, the optimizer, the parameters to train, and the memory. The struct is plain
// data that the commands fill in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/tensor.h"
#include "engine/numeric/loss_scale.h"

namespace nacre::tools {

enum class Loss : uint8_t {
  kSoftmaxCrossEntropy,
  kDenseCrossEntropy,
  kSigmoidCrossEntropy,
  kSquaredError,
  kAbsoluteError,
  kHuber
};
enum class Optimizer : uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW, kRmsprop, kAdagrad };

struct LossOptions {
  Loss kind = Loss::kSoftmaxCrossEntropy;
  float label_smoothing = 0;  // for cross-entropies over classes
  bool ignores = false;       // sparse labels equal to ignore_index do not count
  int32_t ignore_index = -1;
  float delta = 1;          // for huber
  bool sums = false;        // if true, the loss of a step is the sum over its samples, not the mean
  std::string output = {};  // the name of the output that the loss reads; "" for the first
};

// engine/ops/optimize.h has meanings and formulas. An optimizer ignores the fields that it does not have.
struct OptimizerOptions {
  Optimizer kind = Optimizer::kSgd;
  float momentum = 0.9f;               // momentum, nesterov
  float beta1 = 0.9f, beta2 = 0.999f;  // adam, adamw
  float alpha = 0.99f;                 // rmsprop
  float epsilon = 1e-8f;               // adam, adamw, rmsprop, adagrad
  float epsilon_in_root = 0;           // 1 for rmsprop and adagrad as in Keras
  float epsilon_before = 0;            // 1 for adam and adamw as in Keras
  float weight_decay = 0;
  float decay_all = 0;  // 1 if biases and parameters of norms decay too, as in Keras's AdamW
  // Patterns of layers whose weights do not decay.
  std::vector<std::string> no_decay;
  float clip_value = 0, clip_norm = 0;          // 0 if gradients are not clipped
  ElementType moments = ElementType::kFloat32;  // or kBfloat16
};

// Output channels to train in the layers that a pattern matches: the leading `share` of them, or first .. end - 1 if
// `share` is 0. The other channels stay.
struct TrainedChannels {
  std::string pattern;
  double share = 0;
  int64_t first = 0, end = 0;
};

// The parameters to train: those of the layers that match a pattern (all layers if there is no pattern). Among these
// the last `last_layers` that have any, and then only biases if asked for.
struct TrainedParameters {
  std::vector<std::string> layers;
  int last_layers = 0;
  bool biases_only = false;
  bool frozen_batch_norm = false;              // batch norms keep their running statistics
  std::vector<TrainedChannels> channels = {};  // trained_channels.h; the first match of a layer counts
  std::string output = {};                     // train only what this output depends on; "" for all layers
};

// How layers that a policy quantizes train: training_quantizers.h.
struct QuantizerTraining {
  // For int8/static activations: ranges train like parameters. If false, they are running means of each step's ends.
  bool learned_ranges = false;
  // running = momentum running + (1 - momentum) ends. The running range is deployed. With 0.99 it lags by some 100
  // steps, and numbers that have grown since are cut (engine/numeric/NUMERICS.md, 48).
  float range_momentum = 0.9f;
  // After so many steps running ranges stay, and training cuts by them too. 0 if they never freeze.
  uint32_t freeze_steps = 0;
};

// LoRA adapters, trained instead of the layers that TrainedParameters names: adapters.h.
struct AdapterOptions {
  int rank = 0;  // 0 if there are no adapters
  float alpha = 16;
};

struct TrainingOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  TrainedParameters train;
  LossScaler loss_scale = loss_scaler(LossScaleSystem::kNacre, LossScale::kNone);
  float batch_norm_momentum = 0.99f;  // running = momentum running + (1 - momentum) batch
  bool unbiased_variance = false;     // for the running variance: true as in torch, false as in Keras
  uint64_t seed = 1;                  // for dropout and for initial values
  bool immediate = false;             // each parameter is updated as soon as its gradient is known
  // Bytes. To stay within this limit, the backward pass computes activations again. 0 if there is no limit.
  uint64_t arena_limit = 0;
  QuantizerTraining quantizers;
  AdapterOptions adapters;
  bool codes = false;  // trains the codes of int8 layers, whose scales stay: trained_codes.h
  // For int8/full: the share of a layer's channels whose codes one step writes (engine/ops/integer_share.h). 0 if not
  // asked for.
  double share = 0;
};

}  // namespace nacre::tools

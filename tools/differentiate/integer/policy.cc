#include "tools/differentiate/integer/policy.h"

#include <fmt/format.h>

#include <utility>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/graph/source_training.h"

namespace nacre::tools {

std::vector<int> run_full_as_static(Graph& resolved) {
  std::vector<int> layers;
  for (size_t i = 0; i < resolved.layers.size(); ++i) {
    Policy& policy = resolved.layers[i].policy;
    if (policy.quantization != Quantization::kInt8Full) continue;
    policy.quantization = Quantization::kInt8Static;
    layers.push_back(int(i));
  }
  return layers;
}

void refuse_floats(const Graph& graph, const TrainingOptions& o) {
  const OptimizerOptions& by = o.optimizer;
  const std::pair<std::string, bool> wishes[] = {
      {option("train") + " with another loss than softmax_cross_entropy", o.loss.kind != Loss::kSoftmaxCrossEntropy},
      {"label_smoothing", o.loss.label_smoothing != 0},
      {"ignore_index", o.loss.ignores},
      {"reduction", o.loss.sums},
      {option("optimizer") + " with another one than sgd", by.kind != Optimizer::kSgd},
      {"weight_decay", by.weight_decay != 0},
      {option("clip-norm"), by.clip_norm != 0},
      {option("clip-value"), by.clip_value != 0},
      {option("loss-scale"), o.loss_scale.kind != LossScale::kNone},
      {option("update", "immediate"), o.immediate},
      {option("arena-limit"), o.arena_limit != 0},
      {option("train-codes"), o.codes},
      {option("train-channels"), !o.train.channels.empty()},
      {option("lora"), o.adapters.rank > 0}};
  for (const auto& [wish, given] : wishes)
    if (given)
      throw Error(kUnsupported, "int8/full", fmt::format("trains in integers alone, and has no {}", wish),
                  wish.starts_with(option("optimizer"))
                      ? "write " + option("optimizer", "sgd") + ", or train under int8/static_from_float32"
                      : "leave it out, or train under int8/static_from_float32");
  if (graph.training != nullptr && !graph.training->decays.empty())
    throw Error(kUnsupported, graph.source, "int8/full trains in integers alone, and has no L2 penalties",
                "train under int8/static_from_float32, or go on without them: " + option("ignore-setting", "L2"));
}

}  // namespace nacre::tools

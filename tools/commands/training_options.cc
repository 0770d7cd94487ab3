#include "tools/commands/training_options.h"

namespace nacre::tools {
namespace {

using A = TrainingArguments;

OptionTable<A> make_table() {
  return {
      {.name = "--optimizer",
       .value = "NAME[,FIELD=X]",
       .help = fmt::format("{}; such as adamw,weight_decay=0.01 or rmsprop,epsilon_in_root=1 (Keras's) [momentum]",
                           fmt::join(optimizer_names(), ", ")),
       .field = [](A& a) { return &a.optimizer; },
       .empty = true},
      {.name = "--train-layers",
       .value = "PATTERN",
       .help = "train these layers only, by name or pattern (RE2); may be given again",
       .field = [](A& a) { return &a.layers; },
       .empty = true},
      {.name = "--train-last",
       .value = "N",
       .help = "train only the last N of these layers that have parameters",
       .field = [](A& a) { return whole(a.last_layers, 1, 1 << 16); }},
      {.name = "--train-biases",
       .value = "",
       .help = "train only the biases of these layers",
       .field = [](A& a) { return Flag{&a.biases_only}; }},
      {.name = "--train-output",
       .value = "NAME",
       .help =
           "the output that the loss judges, if there are several; layers that it does not depend on stay [the first]",
       .field = [](A& a) { return &a.output; },
       .empty = true},
      {.name = "--train-channels",
       .value = "PATTERN=SHARE|FIRST:END",
       .help = "train the leading share of these layers' outputs, or FIRST to END - 1; the rest stays, and needs no "
               "gradient and no moments",
       .field = [](A& a) { return &a.channels; },
       .empty = true},
      {.name = "--train-codes",
       .value = "",
       .help = "train the codes of weights and biases of int8 layers: scales, steps and bytes of the network stay. "
               "Gradients are\n"
               "scaled so that --lr of sgd and momentum means what it means in float32; adam and the like count it in "
               "codes",
       .field = [](A& a) { return Flag{&a.codes}; }},
      {.name = "--train-share",
       .value = "dynamic=X",
       .help = "under int8/full each step moves all masters, and writes the codes of the share X of each layer's "
               "channels\n"
               "that have changed the most since they were written; the others add up and wait [dynamic=1]",
       .field = [](A& a) { return &a.share; }},
      {.name = "--lora",
       .value = "RANK",
       .help = "freeze these layers and train LoRA adapters of this rank beside them",
       .field = [](A& a) { return whole(a.lora_rank, 1, 4096); }},
      {.name = "--lora-alpha",
       .value = "X",
       .help = "adapters count X / RANK [16]",
       .field = [](A& a) { return &a.lora_alpha; },
       .acts = {{.with = {"--lora"}, .fact = "is about adapters, and there are none", .remedy = "add --lora RANK"}}},
      {.name = "--freeze-batch-norm",
       .value = "",
       .help = "batch norms keep their running statistics",
       .field = [](A& a) { return Flag{&a.frozen_batch_norm}; }},
      {.name = "--unfreeze",
       .value = "PATTERN",
       .help = "train layers that the file freezes (Keras: trainable false), by their names or those of models around "
               "them;\n"
               "all: every one; may be given again",
       .field = [](A& a) { return &a.unfreeze; },
       .empty = true},
      {.name = "--no-decay",
       .value = "PATTERN",
       .help = "layers whose weights do not decay (biases and norms do with decay_all=1 alone)",
       .field = [](A& a) { return &a.no_decay; },
       .empty = true},
      {.name = "--clip-norm",
       .value = "X",
       .help = "scale the gradient down to this 2-norm",
       .field = [](A& a) { return &a.clip_norm; }},
      {.name = "--clip-value",
       .value = "X",
       .help = "clip each number of the gradient",
       .field = [](A& a) { return &a.clip_value; }},
      {.name = "--moments",
       .value = "float32|bfloat16",
       .help = "type of the optimizer's moments [float32]",
       .field = [](A& a) { return &a.moments; },
       .empty = true},
      {.name = "--loss-scale",
       .value = "auto|none|fixed=S|dynamic[=S][,FIELD=X]",
       .help = "auto: what the policies name, else dynamic where a layer computes in float16 [auto]. S: under the\n"
               "rule nacre a power of two, of dynamic within [min, max] = [1, 16777216] [32768]; under the others a "
               "number, "
               "fixed\n"
               "from 1 [fastai: 65536, fixed 512]. Fields of dynamic, as far as the rule has them: period (growth "
               "interval) "
               "[2000;\n"
               "fastai 1000], factor [2], min, max",
       .field = [](A& a) { return &a.loss_scale; },
       .empty = true},
      {.name = "--loss-scale-rule",
       .value = "RULE",
       .help = "nacre, or as in tf, keras, jmp, fastai, axon [nacre]",
       .field = [](A& a) { return &a.loss_scale_rule; },
       .empty = true},
      {.name = "--batch-norm-momentum",
       .value = "M",
       .help = "running = M running + (1 - M) batch [0.99; of a Keras file each layer's]",
       .field = [](A& a) { return &a.batch_norm_momentum; }},
      {.name = "--unbiased-variance",
       .value = "",
       .help = "running variances count n - 1, as torch's do",
       .field = [](A& a) { return Flag{&a.unbiased_variance}; }},
      {.name = "--seed",
       .value = "N",
       .help = "seed of dropout and of parameters that are initialised here [1]",
       .field = [](A& a) { return whole(a.seed, 0, UINT64_MAX); }},
      {.name = "--update",
       .value = "step|immediate",
       .help = "immediate: commit each parameter as soon as its gradient is there, least memory [step]",
       .field = [](A& a) { return choice<bool>(a.immediate, {{"step", false}, {"immediate", true}}); }},
      {.name = "--learned-ranges",
       .value = "",
       .help = "under int8/static train the ranges of activations; else they are running means of their ends",
       .field = [](A& a) { return Flag{&a.learned_ranges}; }},
      {.name = "--range-momentum",
       .value = "M",
       .help = "under int8/static the deployed range = M range + (1 - M) ends of a step [0.9]",
       .field = [](A& a) { return &a.range_momentum; }},
      {.name = "--freeze-ranges",
       .value = "STEPS",
       .help = "steps after which ranges of int8/static stay; until then each batch is rounded by its own [never]",
       .field = [](A& a) { return whole(a.freeze_ranges, 1, INT32_MAX); }},
      {.name = "--arena-limit",
       .value = "BYTES",
       .help = "compute activations anew in the backward pass until the arena fits; with K, M",
       .field = [](A& a) { return &a.arena_limit; }},
  };
}

}  // namespace

const OptionTable<TrainingArguments>& training_options() {
  static const OptionTable<TrainingArguments> table = make_table();
  return table;
}

std::string training_text(const TrainingArguments& arguments) {
  return "--train " + arguments.loss + text_of(training_options(), arguments);
}

}  // namespace nacre::tools

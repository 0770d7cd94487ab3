#include "tools/cli/cli.h"
#include "tools/commands/training_arguments.h"

namespace nacre::tools {

void add_training_options(Command& c, TrainingArguments& a) {
  const auto add = [&](const std::string& name, auto& value, const std::string& type, const std::string& help) {
    return c.add_option(name, value, help)->type_name(type)->group("Training");
  };
  add("--optimizer", a.optimizer, "NAME[,FIELD=X]",
      CLI::detail::join(optimizer_names(), ", ") + "; such as adamw,weight_decay=0.01 [momentum]");
  add("--train-layers", a.layers, "PATTERN", "train these layers only, by name or pattern (RE2); may be given again")
      ->allow_extra_args(false);
  const auto count = [&](const std::string& name, auto& value, uint64_t low, uint64_t high, const std::string& help) {
    return add_number(c, name, value, low, high, help)->group("Training");
  };
  count("--train-last", a.last_layers, 1, 1 << 16, "of these the last N that have parameters");
  c.add_flag("--train-biases", a.biases_only, "of these the biases alone")->group("Training");
  add("--train-channels", a.channels, "PATTERN=SHARE|FIRST:END",
      "of these layers' outputs train the leading share, or FIRST to END - 1; the rest stays, and needs no gradient "
      "and no moments")
      ->allow_extra_args(false);
  c.add_flag(
       "--train-codes", a.codes,
       "of int8 layers train the codes of weights and biases: scales, steps and bytes of the network stay. Gradients "
       "are\n"
       "scaled so that --lr of sgd and momentum means what it means in float32; adam and the like count it in codes")
      ->group("Training");
  count("--lora", a.lora_rank, 1, 4096, "freeze these layers and train LoRA adapters of this rank beside them")
      ->type_name("RANK");
  add("--lora-alpha", a.lora_alpha, "X", "adapters count X / RANK [16]");
  c.add_flag("--freeze-batch-norm", a.frozen_batch_norm, "batch norms keep their running statistics")
      ->group("Training");
  add("--no-decay", a.no_decay, "PATTERN", "layers whose weights do not decay (biases and norms never do)")
      ->allow_extra_args(false);
  add("--clip-norm", a.clip_norm, "X", "scale the gradient down to this 2-norm");
  add("--clip-value", a.clip_value, "X", "clip each number of the gradient");
  add("--moments", a.moments, "float32|bfloat16", "type of the optimizer's moments [float32]");
  add("--loss-scale", a.loss_scale, "auto|none|fixed=S|dynamic[=S]",
      "auto: dynamic where a layer computes in float16 [auto]");
  add("--loss-scale-rule", a.loss_scale_rule, "RULE", "nacre, or as in tf, keras, jmp, fastai, axon [nacre]");
  add("--batch-norm-momentum", a.batch_norm_momentum, "M", "running = M running + (1 - M) batch [0.99]");
  c.add_flag("--unbiased-variance", a.unbiased_variance, "running variances count n - 1, as torch's do")
      ->group("Training");
  count("--seed", a.seed, 0, UINT64_MAX, "of dropout and of what is initialised here [1]");
  c.add_option_function<std::string>(
       "--update", [&a](const std::string& how) { a.immediate = how == "immediate"; },
       "immediate: commit each parameter as soon as its gradient is there, least memory [step]")
      ->check(one_of({"step", "immediate"}))
      ->type_name("step|immediate")
      ->group("Training");
  c.add_flag("--learned-ranges", a.learned_ranges,
             "of int8/static: train the ranges of activations; else running means of their ends")
      ->group("Training");
  add("--arena-limit", a.arena_limit, "BYTES",
      "compute activations anew in the backward pass until the arena fits; with K, M")
      ->check(not_empty());
  c.only_with({"--lora-alpha"}, {"--lora"}, {"is about adapters, and there are none", "add --lora RANK"});
}

Command::Names training_options(const Command& c) {
  Command::Names names;
  for (const CLI::Option* option : c.get_options())
    if (option->get_group() == "Training" && !option->check_lname("train") && !option->check_lname("loss"))
      names.push_back(name_of(*option));
  return names;
}

}  // namespace nacre::tools

// Tests settings of Keras files: the importer uses a setting, may ignore it, or refuses it by the name that
// --ignore-setting takes.
#include <gtest/gtest.h>

#include "tests/importers/keras_builder.h"
#include "tests/refused_with.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/graph/source_training.h"
#include "tools/importers/importer.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {
namespace {

// Returns a file of a model with the input x [null, 2], a Dense "d" of 2 units and then `layers`. `dense` is added to
// the configuration of "d".
std::vector<uint8_t> setting_file(const std::string& dense, const std::string& layers = "",
                                  const std::string& compiled = "null") {
  const std::string config = R"({"class_name": "Sequential", "compile_config": )" + compiled +
                             R"(, "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "use_bias": false)" +
                             dense + "}}" + layers + "]}}";
  return keras_archive(config, {{"layers/dense/vars/0", {2, 2}, {1, 2, 3, 4}}});
}

std::string refusal_of(const std::vector<uint8_t>& file, const ImportOptions& options) {
  try {
    import_network(file, "m.keras", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

SourceTraining setting_training(const std::string& loss, const std::string& optimizer = R"("SGD")",
                                const std::string& more = "", const std::string& layers = "") {
  const std::string compiled = R"({"loss": )" + loss + R"(, "optimizer": )" + optimizer + more + "}";
  return *import_network(setting_file("", layers, compiled), "m.keras", {.train = true}).training;
}

std::string class_with(const std::string& name, const std::string& config) {
  return R"({"class_name": ")" + name + R"(", "config": {)" + config + "}}";
}

std::string facts_of(const SourceTraining& said) {
  std::string text;
  for (const RefusedSetting& setting : said.refused) text += setting.fact + "\n";
  return text;
}

TEST(keras_settings, a_key_that_no_table_has_is_refused_by_its_name) {
  const std::vector<uint8_t> file = setting_file(R"(, "twist": 3)");
  const std::string said = refusal_of(file, {});
  EXPECT_NE(said.find("d (Dense): its twist (3) is not known; --ignore-setting Dense.twist goes on without it"),
            said.npos)
      << said;
  EXPECT_EQ(refusal_of(file, {.ignored = {"Dense.twist"}}), "");
  EXPECT_EQ(refusal_of(file, {.ignored = {"Dense"}}), "");
  EXPECT_EQ(refusal_of(setting_file(R"(, "twist": null)"), {}), "");  // null means absent
}

TEST(keras_settings, a_name_that_nothing_in_the_file_has_is_refused) {
  const std::string said = refusal_of(setting_file(""), {.ignored = {"LSTM.dropout"}});
  EXPECT_NE(said.find("--ignore-setting LSTM.dropout: names no setting of m.keras that is refused here"), said.npos)
      << said;
}

TEST(keras_settings, what_works_in_training_alone_is_refused_there_alone) {
  for (const auto& [layer, name] :
       {std::pair(class_with("GaussianNoise", R"("name": "n", "stddev": 0.1)"), "GaussianNoise"),
        std::pair(class_with("AlphaDropout", R"("name": "n", "rate": 0.1)"), "AlphaDropout"),
        std::pair(class_with("ActivityRegularization", R"("name": "n", "l1": 0.1, "l2": 0.0)"),
                  "ActivityRegularization.l1"),
        std::pair(class_with("Dropout", R"("name": "n", "rate": 0.1, "noise_shape": [2, 1])"),
                  "Dropout.noise_shape")}) {
    const std::vector<uint8_t> file = setting_file("", "," + layer);
    EXPECT_EQ(refusal_of(file, {}), "");
    EXPECT_NE(refusal_of(file, {.train = true}).find("--ignore-setting " + std::string(name) + " goes on"),
              std::string::npos)
        << refusal_of(file, {.train = true});
    EXPECT_EQ(refusal_of(file, {.train = true, .ignored = {name}}), "");
    EXPECT_EQ(refusal_of(file, {.train = true, .settled = true}), "");
  }
  EXPECT_EQ(
      refusal_of(setting_file("", "," + class_with("GaussianNoise", R"("name": "n", "stddev": 0.0)")), {.train = true}),
      "");
  const std::vector<uint8_t> bound = setting_file(R"(, "kernel_constraint": {"class_name": "NonNeg", "config": {}})");
  EXPECT_EQ(refusal_of(bound, {}), "");
  EXPECT_NE(refusal_of(bound, {.train = true}).find("--ignore-setting Dense.kernel_constraint"), std::string::npos);
}

TEST(keras_settings, penalties_are_of_each_variable) {
  const auto decays = [](const std::string& penalty, const ImportOptions& options) {
    return import_network(setting_file(R"(, "kernel_regularizer": )" + penalty), "m.keras", options).training->decays;
  };
  const std::string l2 = class_with("L2", R"("l2": 0.25)"), l1 = class_with("L1", R"("l1": 0.25)");
  EXPECT_EQ(decays(l2, {.train = true}), (std::map<std::string, float>{{"d/kernel", 0.5f}}));
  EXPECT_TRUE(decays(l2, {.train = true, .ignored = {"L2"}}).empty());
  EXPECT_EQ(decays(class_with("L1L2", R"("l1": 0.0, "l2": 0.25)"), {.train = true}).at("d/kernel"), 0.5f);
  const std::string frozen = l2 + R"(, "trainable": false)";  // a frozen kernel has no gradient for a penalty
  EXPECT_TRUE(decays(frozen, {.train = true}).empty());
  EXPECT_TRUE(decays(frozen, {.train = true, .ignored = {"L2"}}).empty());
  EXPECT_EQ(decays(frozen, {.train = true, .unfreeze = {"d"}}).at("d/kernel"), 0.5f);
  EXPECT_NE(
      refusal_of(setting_file(R"(, "kernel_regularizer": )" + l1), {.train = true}).find("--ignore-setting L1 goes"),
      std::string::npos);
}

TEST(keras_settings, losses_are_said_with_all_of_their_settings) {
  const auto loss = [](const std::string& name, const std::string& config) {
    return setting_training(class_with(name, config));
  };
  EXPECT_EQ(loss("Huber", R"("delta": 0.25)").loss, "huber,delta=0.25");
  EXPECT_EQ(setting_training(R"("huber")").loss, "huber,delta=1");
  EXPECT_TRUE(setting_training(R"("huber")").refused.empty());
  EXPECT_NE(facts_of(loss("Huber", R"("reduction": "sum_over_batch_size")")).find("loss.delta"),
            std::string::npos);  // as Keras 3 writes it
  EXPECT_EQ(loss("MeanSquaredError", R"("reduction": "sum")").loss, "squared_error,reduction=sum");
  const SourceTraining ignoring =
      loss("SparseCategoricalCrossentropy",
           R"("ignore_class": -1, "from_logits": true, "reduction": "sum_over_batch_size")");
  EXPECT_EQ(ignoring.loss, "softmax_cross_entropy,ignore_index=-1");
  EXPECT_TRUE(ignoring.refused.empty()) << facts_of(ignoring);
  for (const auto& [name, config, setting] :
       {std::tuple("SparseCategoricalCrossentropy", R"("from_logits": false)", "loss.from_logits"),
        std::tuple("BinaryCrossentropy", R"("from_logits": true, "label_smoothing": 0.1)", "loss.label_smoothing"),
        std::tuple("MeanSquaredError", R"("reduction": "none")", "loss.reduction"),
        std::tuple("CategoricalCrossentropy", R"("from_logits": true, "axis": 1)", "loss.axis"),
        std::tuple("MeanSquaredError", R"("dtype": "float16")", "loss.dtype")})
    EXPECT_NE(facts_of(loss(name, config)).find(setting), std::string::npos) << name << facts_of(loss(name, config));
  EXPECT_NE(facts_of(setting_training(R"("mse")", R"("SGD")", R"(, "loss_weights": [0.5])")).find("loss.weights"),
            std::string::npos);
  EXPECT_TRUE(setting_training(R"("mse")", R"("SGD")", R"(, "loss_weights": [1.0])").refused.empty());
  EXPECT_NE(facts_of(setting_training(R"("poisson")")).find("poisson"), std::string::npos);
  const SourceTraining behind =
      setting_training(class_with("SparseCategoricalCrossentropy", R"("from_logits": false)"), R"("SGD")", "",
                       "," + class_with("Activation", R"("name": "a", "activation": "softmax")"));
  EXPECT_TRUE(behind.refused.empty()) << facts_of(behind);
}

TEST(keras_settings, a_softmax_over_another_axis_gives_no_classes_on_the_last) {
  const auto loss = [](const char* from_logits, const std::string& axis) {
    return setting_training(
        class_with("SparseCategoricalCrossentropy", R"("from_logits": )" + std::string(from_logits)), R"("SGD")", "",
        "," + class_with("Reshape", R"("name": "r", "target_shape": [1, 2])") + "," +
            class_with("Softmax", R"("name": "p", "axis": )" + axis));
  };
  EXPECT_TRUE(loss("false", "-1").refused.empty());
  EXPECT_TRUE(loss("false", "2").refused.empty());
  const std::string said = facts_of(loss("false", "1"));
  EXPECT_NE(said.find("its output p [1, 1, 2] has the classes on axis 1, and the cross-entropy is over the last axis"),
            said.npos)
      << said;
  EXPECT_TRUE(loss("true", "1").refused.empty());  // Keras too takes it for logits
}

TEST(keras_settings, optimizers_are_said_or_refused_with_all_of_their_settings) {
  const auto by = [](const std::string& name, const std::string& config) {
    return setting_training(R"("mse")", class_with(name, config));
  };
  EXPECT_EQ(by("SGD", R"("weight_decay": 0.125)").optimizer, "sgd,weight_decay=0.125,decay_all=1");
  const SourceTraining adagrad = by("Adagrad", R"("initial_accumulator_value": 0.5)");
  EXPECT_EQ(adagrad.moments.at("d/kernel").at("square_sum"), (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}));
  for (const auto& [name, config, setting] :
       {std::tuple("Adam", R"("amsgrad": true)", "optimizer.amsgrad"), std::tuple("Lion", "", "optimizer"),
        std::tuple("RMSprop", R"("centered": true)", "optimizer.centered"),
        std::tuple("RMSprop", R"("momentum": 0.5)", "optimizer.momentum"),
        std::tuple("SGD", R"("clipnorm": 1.0)", "optimizer.clipnorm"),
        std::tuple("SGD", R"("use_ema": true)", "optimizer.use_ema"),
        std::tuple("SGD", R"("momentum": 0.5, "weight_decay": 0.1)", "optimizer.weight_decay"),
        std::tuple("SGD", R"("gradient_accumulation_steps": 4)", "optimizer.gradient_accumulation_steps"),
        std::tuple("SGD", R"("twist": 4)", "optimizer.twist"),
        std::tuple("LossScaleOptimizer",
                   R"("initial_scale": 64.0, "inner_optimizer": {"class_name": "SGD", "config": {}})",
                   "optimizer.initial_scale")})
    EXPECT_NE(facts_of(by(name, config)).find("--ignore-setting " + std::string(setting) + " goes"), std::string::npos)
        << name << ": " << facts_of(by(name, config));
  EXPECT_TRUE(
      by("Adam", R"("amsgrad": false, "clipnorm": null, "use_ema": false, "ema_momentum": 0.5)").refused.empty());
}

TEST(keras_settings, schedules_are_said_or_refused) {
  const auto with = [](const std::string& name, const std::string& config, const std::string& more = "") {
    return setting_training(R"("mse")", class_with("SGD", R"("learning_rate": )" + class_with(name, config) + more));
  };
  EXPECT_EQ(with("CosineDecay", R"("initial_learning_rate": 0.5, "decay_steps": 8, "alpha": 0.25)").schedule,
            "cosine,steps=8,end=0.25");
  const SourceTraining warm = with(
      "CosineDecay", R"("initial_learning_rate": 0.125, "decay_steps": 8, "warmup_target": 0.5, "warmup_steps": 3)");
  EXPECT_EQ(warm.schedule, "cosine,steps=8,end=0,warmup=3,warmup_start=0.25");
  EXPECT_EQ(warm.learning_rate, 0.5f);
  EXPECT_EQ(
      with("PolynomialDecay", R"("initial_learning_rate": 0.5, "decay_steps": 8, "end_learning_rate": 0.125)").schedule,
      "linear,steps=8,end=0.25");
  const std::string steps = R"("initial_learning_rate": 0.5, "decay_steps": 8, "decay_rate": 0.5)";
  EXPECT_EQ(with("ExponentialDecay", steps + R"(, "staircase": true)").schedule, "step,every=8,gamma=0.5");
  for (const SourceTraining& said :
       {with("ExponentialDecay", steps), with("InverseTimeDecay", steps), with("MySchedule", ""),
        with("CosineDecay", R"("initial_learning_rate": 0.5, "decay_steps": 8)", R"(, "momentum": 0.5)")}) {
    EXPECT_EQ(said.schedule, "");
    EXPECT_NE(facts_of(said).find("--ignore-setting optimizer.learning_rate"), std::string::npos) << facts_of(said);
  }
}

TEST(keras_settings, numbers_that_no_size_can_be_are_refused_with_their_place) {
  for (const char* wrong : {"1e30", "3.5", "true", "18446744073709551615"}) {
    const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, )" +
                               std::string(wrong) + R"(], "name": "x"}}]}})";
    const std::string said = refusal_of(keras_archive(config, {}), {});
    EXPECT_NE(said.find("x (InputLayer): its batch_shape ([null,"), said.npos) << wrong << ": " << said;
    EXPECT_THROW(Json::parse(wrong).get<int32_t>(), JsonError) << wrong;
  }
  for (const char* wrong : {"1e30", "2.5", "true", "3"})  // the kernel has 2
    EXPECT_NE(refusal_of(setting_file(R"(, "units": )" + std::string(wrong)), {}).find("d (Dense): "),
              std::string::npos)
        << wrong;
  EXPECT_EQ(Json::parse("4.0").get<int>(), 4);
  EXPECT_EQ(Json::parse("-4").get<int64_t>(), -4);
  EXPECT_THROW(Json::parse("-1").get<uint32_t>(), JsonError);
  EXPECT_THROW(Json::parse("1e60").get<float>(), JsonError);
}

TEST(keras_settings, values_of_another_type_are_refused_by_their_key) {
  const auto said_of = [](const std::vector<uint8_t>& file, const ImportOptions& options) {
    return refused_with([&] { import_network(file, "m.keras", options); }, kBadInput);
  };
  for (const auto& [layer, fact] :
       {std::pair(class_with("Dense", R"("name": "l", "units": 2, "use_bias": -1)"),
                  "l (Dense): its use_bias (-1) is neither true nor false"),
        std::pair(class_with("LSTM", R"("name": "l", "units": 2, "return_sequences": -1)"),
                  "l (LSTM): its return_sequences (-1) is neither true nor false"),
        std::pair(class_with("GroupNormalization", R"("name": "l", "groups": 1, "scale": [])"),
                  "l (GroupNormalization): its scale ([]) is neither true nor false"),
        std::pair(class_with("ELU", R"("name": "l", "alpha": "1")"), R"(l (ELU): its alpha ("1") is no number)"),
        std::pair(class_with("GaussianNoise", R"("name": "l", "stddev": [])"),
                  "l (GaussianNoise): its stddev ([]) is no number"),
        std::pair(class_with("ReLU", R"("name": "l", "trainable": 3.5)"),
                  "l: its trainable (3.5) is neither true nor false"),
        std::pair(class_with("ReLU", R"("name": "l", "trainable": null)"),
                  "l: its trainable (null) is neither true nor false")}) {
    const std::string said = said_of(setting_file("", "," + layer), {});
    EXPECT_NE(said.find(fact), said.npos) << said;
  }
  const std::string penalty =
      said_of(setting_file(R"(, "kernel_regularizer": )" + class_with("L2", R"("l2": [])")), {.train = true});
  EXPECT_NE(penalty.find("the l2 ([]) of a regularizer is no number"), penalty.npos) << penalty;

  const std::string mse = R"("mse")", sgd = R"("SGD")";
  for (const auto& [loss, optimizer, fact] :
       {std::tuple(mse, class_with("Adam", R"("weight_decay": [])"), "its weight_decay ([]) is no number"),
        std::tuple(mse, class_with("Adam", R"("clipvalue": [[]])"), "its clipvalue ([[]]) is no number"),
        std::tuple(mse, class_with("Adam", R"("clipnorm": [])"), "its clipnorm ([]) is neither a number nor a flag"),
        std::tuple(mse, class_with("Adam", R"("learning_rate": "fast")"), R"(its learning_rate ("fast") is no number)"),
        std::tuple(mse, class_with("SGD", R"("momentum": 0.5, "nesterov": -1)"),
                   "its nesterov (-1) is neither true nor false"),
        std::tuple(mse, std::string(R"({"class_name": "Adam", "config": 1e30})"), "its optimizer.config ("),
        std::tuple(mse, std::string("3"), "its optimizer (3) is neither a name nor a class"),
        std::tuple(std::string("3"), sgd, "its loss (3) is neither a name nor a class"),
        std::tuple(class_with("BinaryCrossentropy", R"("from_logits": "yes")"), sgd,
                   R"(its from_logits ("yes") is neither true nor false)")}) {
    const std::string compiled = R"({"loss": )" + loss + R"(, "optimizer": )" + optimizer + "}";
    const std::string said = said_of(setting_file("", "", compiled), {.train = true});
    EXPECT_NE(said.find(fact), said.npos) << said;
  }
}

TEST(keras_settings, null_integers_and_numbers_of_numpy_are_read) {
  const auto optimizer = [](const std::string& config) {
    return setting_training(R"("mse")", class_with("Adam", config)).optimizer;
  };
  const std::string numpy = class_with("__numpy__", R"("value": 0.5, "dtype": "float32")");
  EXPECT_EQ(optimizer(R"("weight_decay": null, "clipvalue": null, "global_clipnorm": null, "epsilon": 1, "beta_1": )" +
                      numpy),
            "adam,beta1=0.5,beta2=0.999,epsilon=1,epsilon_before=1");
  EXPECT_EQ(setting_training(R"("mse")", class_with("SGD", R"("learning_rate": )" + numpy)).learning_rate, 0.5f);
  EXPECT_EQ(
      setting_training(R"("mse")", class_with("SGD", R"("momentum": 0.5, "nesterov": 1, "name": "sgd")")).optimizer,
      "nesterov,momentum=0.5");
  const std::string layers = "," + class_with("ReLU", R"("name": "r", "trainable": 1, "max_value": 6)") + "," +
                             class_with("Dropout", R"("name": "o", "rate": 0, "noise_shape": null)");
  EXPECT_EQ(refusal_of(setting_file("", layers), {}), "");
}

}  // namespace
}  // namespace nacre::tools

// Tests write_back, which writes learned numbers into the network's own file: each where its parameter is stored, in
// the file's type. All other bytes stay. The oracles undo the layouts of Keras and ONNX.
#include "tools/compile/write_back.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "engine/numeric/small_float.h"
#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/small_trainer.h"
#include "tests/importers/keras_builder.h"
#include "tests/importers/onnx_builder.h"
#include "tests/random.h"
#include "tests/refused_with.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/importers/shared/stored_numbers.h"

namespace nacre::tools {
namespace {

using test::SmallTrainer;

constexpr int kRowsLearned = 8;

std::vector<float> random_numbers(size_t count, uint64_t seed) {
  test::Random random(seed);
  std::uniform_real_distribution<float> within(0.1f, 1);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = within(random);
  return numbers;
}

// Trains a network from a file for some steps, and writes the learned numbers back.
class WriteBack {
 public:
  WriteBack(const std::string& name, const std::vector<uint8_t>& file, const TrainingOptions& options = {})
      : path_(folder_ / name), before_(file) {
    write_bytes(path_, file);
    const bool fixed = name.ends_with(".onnx");
    const Graph graph = load_network(path_, {.batch = fixed ? 0 : kRowsLearned, .train = true}, kSimplifyToTrain);
    const int width = int(graph.values[size_t(graph.inputs[0].value)].elements() / kRowsLearned);
    trainer_ = std::make_unique<SmallTrainer>(compile_training(graph, options, {}).bytes);
    for (int step = 0; step < 4; ++step) {
      const test::LabelledRows data = test::three_classes(uint64_t(step), kRowsLearned, width);
      EXPECT_TRUE(trainer_->train(data.x, data.labels, 0.05f).applied);
    }
  }

  void run() {
    made_ = write_back({.network = path_}, trainer_->model(), trainer_->trainer().state());
    EXPECT_EQ(made_.counts.bytes.size(), before_.size());
  }

  const WrittenBack& made() const { return made_; }
  std::vector<float> learned(const std::string& name) const { return trainer_->state<float>(name); }

  std::vector<float> stored(const std::string& name) const {
    for (const StoredNumbers& tensor : stored_numbers(made_.counts.bytes, path_))
      if (tensor.name == name) return read_stored(made_.counts.bytes, tensor);
    ADD_FAILURE() << "the file has no " << name;
    return {};
  }

  // Returns how many bytes changed that belong to no learned number.
  size_t changed_elsewhere() const {
    std::vector<uint8_t> number(before_.size(), 0);
    for (const StoredNumbers& tensor : stored_numbers(before_, path_)) {
      const size_t bytes = size_t(tensor.elements) * element_bits(tensor.type) / 8;
      std::fill_n(number.begin() + ptrdiff_t(tensor.offset), tensor.offset == 0 ? 0 : bytes, uint8_t(1));
    }
    size_t changed = 0;
    for (size_t i = 0; i < before_.size(); ++i) changed += number[i] == 0 && made_.counts.bytes[i] != before_[i];
    return changed;
  }

 private:
  TemporaryDirectory folder_;
  std::string path_;
  std::vector<uint8_t> before_;
  std::unique_ptr<SmallTrainer> trainer_;
  WrittenBack made_;
};

// Transposes a file's [a, b] to the state's [b, a].
std::vector<float> turned(const std::vector<float>& numbers, size_t a, size_t b) {
  std::vector<float> made(numbers.size());
  for (size_t i = 0; i < a; ++i)
    for (size_t j = 0; j < b; ++j) made[j * a + i] = numbers[i * b + j];
  return made;
}

constexpr char kImages[] = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
  {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 4, 2], "name": "x"}},
  {"class_name": "Conv2D", "config": {"name": "c", "filters": 3, "kernel_size": [3, 3], "padding": "same"}},
  {"class_name": "BatchNormalization", "config": {"name": "b"}},
  {"class_name": "Flatten", "config": {"name": "f"}},
  {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "softmax"}}]}})";

std::vector<KerasVariable> image_variables(const std::string& conv, const std::string& norm, const std::string& dense,
                                           KerasVariable::Type type) {
  return {{conv + "0", {3, 3, 2, 3}, random_numbers(54, 1), type}, {conv + "1", {3}, random_numbers(3, 2), type},
          {norm + "0", {3}, random_numbers(3, 3), type},           {norm + "1", {3}, random_numbers(3, 4), type},
          {norm + "2", {3}, random_numbers(3, 5), type},           {norm + "3", {3}, random_numbers(3, 6), type},
          {dense + "0", {48, 3}, random_numbers(144, 7), type},    {dense + "1", {3}, random_numbers(3, 8), type}};
}

TEST(write_back, a_keras_archive_holds_what_was_learned_in_keras_layout) {
  const std::string at = "layers/";
  for (const KerasVariable::Type type : {KerasVariable::kFloat32, KerasVariable::kFloat16}) {
    std::vector<KerasVariable> variables =
        image_variables(at + "conv2d/vars/", at + "batch_normalization/vars/", at + "dense/vars/", type);
    variables.push_back({"optimizer/vars/0", {2}, {5, 6}});
    WriteBack net("m.keras", keras_archive(kImages, variables));
    net.run();
    EXPECT_EQ(net.made().counts.parameters, 8);
    EXPECT_EQ(net.made().tensors, 8u);
    EXPECT_EQ(net.made().numbers, 54u + 5 * 3 + 144 + 3);
    EXPECT_LE(net.changed_elsewhere(), 8u);  // the archive's two checksums of its member
    const auto expect = [&](const std::string& path, std::vector<float> learned) {
      ASSERT_FALSE(learned.empty()) << path;
      if (type == KerasVariable::kFloat16)
        for (float& x : learned) x = float(Float16(x));
      EXPECT_EQ(net.stored(at + path), learned) << path;
    };
    expect("conv2d/vars/0", turned(net.learned("c/kernel"), 3, 18));
    expect("conv2d/vars/1", net.learned("c/bias"));
    expect("batch_normalization/vars/0", net.learned("b/gamma"));
    expect("batch_normalization/vars/2", net.learned("b/moving_mean"));
    expect("batch_normalization/vars/3", net.learned("b/moving_variance"));
    expect("dense/vars/0", turned(net.learned("d/kernel"), 3, 48));
    EXPECT_NE(net.stored(at + "dense/vars/0"), random_numbers(144, 7));
  }
}

TEST(write_back, a_legacy_keras_file_changes_in_its_numbers_alone) {
  std::map<std::string, std::vector<KerasVariable>> layers;
  for (const KerasVariable& v : image_variables("c/", "b/", "d/", KerasVariable::kFloat32))
    layers[v.path.substr(0, 1)].push_back(v);
  WriteBack net("m.h5", legacy_keras(kImages, layers));
  net.run();
  EXPECT_EQ(net.changed_elsewhere(), 0u);
  EXPECT_EQ(net.stored("model_weights/c/c/0"), turned(net.learned("c/kernel"), 3, 18));
  EXPECT_EQ(net.stored("model_weights/b/b/1"), net.learned("b/beta"));
}

// One dataset holds the input bias and the recurrent bias. LoRA adapters are merged into the kernel only.
TEST(write_back, parts_of_a_variable_and_adapters_find_their_place) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3, 4], "name": "x"}},
    {"class_name": "GRU", "config": {"name": "g", "units": 2}},
    {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "softmax"}}]}})";
  const std::vector<uint8_t> file = keras_archive(config, {{"layers/gru/cell/vars/0", {4, 6}, random_numbers(24, 1)},
                                                           {"layers/gru/cell/vars/1", {2, 6}, random_numbers(12, 2)},
                                                           {"layers/gru/cell/vars/2", {2, 6}, random_numbers(12, 3)},
                                                           {"layers/dense/vars/0", {2, 3}, random_numbers(6, 4)},
                                                           {"layers/dense/vars/1", {3}, random_numbers(3, 5)}});
  WriteBack net("m.keras", file);
  net.run();
  std::vector<float> bias = net.learned("g/bias");
  const std::vector<float> inside = net.learned("g/recurrent_bias");
  bias.insert(bias.end(), inside.begin(), inside.end());
  EXPECT_EQ(net.stored("layers/gru/cell/vars/2"), bias);
  EXPECT_EQ(net.stored("layers/gru/cell/vars/1"), turned(net.learned("g/recurrent_kernel"), 6, 2));

  TrainingOptions with_adapters;
  with_adapters.adapters = {.rank = 1, .alpha = 1};
  WriteBack adapted("m.keras", file, with_adapters);
  adapted.run();
  EXPECT_GT(adapted.made().counts.adapters, 0);
  EXPECT_NE(adapted.stored("layers/dense/vars/0"), random_numbers(6, 4));
  EXPECT_EQ(adapted.stored("layers/dense/vars/1"), random_numbers(3, 5));
}

// The numbers are in initializers, in each data field that can be rewritten, and in a Constant's tensor.
TEST(write_back, an_onnx_file_holds_what_was_learned_in_its_own_order) {
  OnnxBuilder b;
  b.input("x", {kRowsLearned, 2, 4, 4});
  b.floats("w", {4, 2, 3, 3}, random_numbers(72, 1));
  b.floats("b", {4}, random_numbers(4, 2));
  b.node("Conv", {"x", "w", "b"}, {"y"}).ints("pads", {1, 1, 1, 1});
  b.node("Relu", {"y"}, {"z"});
  b.node("Flatten", {"z"}, {"f"});
  b.floats("scales", {4}, {1, 1, 2, 2});  // that no layer learns
  b.floats("v", {64, 5}, random_numbers(320, 3));
  b.node("MatMul", {"f", "v"}, {"g"});
  ::onnx::TensorProto head;
  for (const int64_t d : {5, 3}) head.add_dims(d);
  head.set_data_type(::onnx::TensorProto::DOUBLE);
  for (const float x : random_numbers(15, 4)) head.add_double_data(double(x));
  b.node("Constant", {}, {"exact"}).tensor("value", head);
  b.node("Cast", {"exact"}, {"head"}).integer("to", ::onnx::TensorProto::FLOAT);
  b.node("MatMul", {"g", "head"}, {"logits"});
  b.output("logits");
  const std::vector<float> raw = random_numbers(72, 1);
  ::onnx::TensorProto& w = *b.model().mutable_graph()->mutable_initializer(0);
  w.clear_float_data();
  w.set_raw_data(raw.data(), raw.size() * sizeof(float));

  WriteBack net("m.onnx", b.finish());
  net.run();
  EXPECT_EQ(net.changed_elsewhere(), 0u);
  std::vector<float> conv;  // state [out, h, w, in], file [out, in, h, w]
  const std::vector<float> learned = net.learned("w");
  ASSERT_EQ(learned.size(), 72u);
  for (size_t o = 0; o < 4; ++o) {
    const std::vector<float> one(learned.begin() + ptrdiff_t(o * 18), learned.begin() + ptrdiff_t(o * 18 + 18));
    const std::vector<float> moved = turned(one, 9, 2);
    conv.insert(conv.end(), moved.begin(), moved.end());
  }
  EXPECT_EQ(net.stored("w"), conv);
  EXPECT_NE(net.stored("w"), raw);
  EXPECT_EQ(net.stored("b"), net.learned("b"));
  std::vector<float> flat(320);  // state [k, place, channel], file [channel, place, k]
  const std::vector<float> v = net.learned("v");
  ASSERT_EQ(v.size(), flat.size());
  for (size_t k = 0; k < 5; ++k)
    for (size_t place = 0; place < 16; ++place)
      for (size_t c = 0; c < 4; ++c) flat[(c * 16 + place) * 5 + k] = v[(k * 16 + place) * 4 + c];
  EXPECT_EQ(net.stored("v"), flat);
  EXPECT_EQ(net.made().numbers, 72u + 4 + 320 + 15);
  EXPECT_NE(net.stored("exact"), random_numbers(15, 4));
}

// The new file holds all data itself. Its external file would be the input's.
TEST(write_back, external_data_of_an_onnx_file_come_into_it) {
  const TemporaryDirectory folder;
  OnnxBuilder b;
  b.input("x", {kRowsLearned, 4});
  b.floats("w", {4, 3}, {});
  b.node("MatMul", {"x", "w"}, {"y"});
  b.output("y");
  const std::vector<float> numbers = random_numbers(12, 1);
  ::onnx::TensorProto& w = *b.model().mutable_graph()->mutable_initializer(0);
  w.set_data_location(::onnx::TensorProto::EXTERNAL);
  ::onnx::StringStringEntryProto& entry = *w.add_external_data();
  entry.set_key("location");
  entry.set_value("m.data");
  const auto* first = reinterpret_cast<const uint8_t*>(numbers.data());
  write_bytes(folder / "m.data", {first, first + numbers.size() * sizeof(float)});
  const std::vector<uint8_t> whole = with_data_inside(b.finish(), folder / "m.onnx");
  const std::vector<StoredNumbers> stored = stored_numbers(whole, "m.onnx");
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(read_stored(whole, stored[0]), numbers);
  EXPECT_EQ(with_data_inside(whole, folder / "m.onnx"), whole);
}

TEST(write_back, what_has_no_place_in_the_file_is_refused) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 3, "use_bias": false}}]}})";
  const std::vector<KerasVariable> variables = {{"layers/dense/vars/0", {4, 3}, random_numbers(12, 1)}};
  WriteBack zipped("m.keras", keras_archive(config, variables, true));
  EXPECT_TRUE(has(refused_with([&] { zipped.run(); }, kUnsupported), "its weights are compressed"));

  OnnxBuilder computed;  // the factor stands in no file: it is a sum of two
  computed.input("x", {kRowsLearned, 4});
  for (const char* name : {"p", "q"}) computed.floats(name, {4, 3}, random_numbers(12, 2));
  computed.node("Add", {"p", "q"}, {"w"});
  computed.node("MatMul", {"x", "w"}, {"y"});
  computed.output("y");
  try {
    WriteBack sum("m.onnx", computed.finish());
    sum.run();  // where p and q were trained themselves
    EXPECT_EQ(sum.stored("p"), sum.learned("p"));
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "does not hold")) << error.what();
  }
  refused_with([] { stored_numbers(std::vector<uint8_t>{'T', 'F', 'L', '3'}, "m.tflite"); }, kUsage);
}

// Bytes that are not a message give one sentence of refusal, or no tensors.
TEST(write_back, a_damaged_onnx_file_is_no_crash) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.floats("w", {4, 3}, random_numbers(12, 1));
  b.node("MatMul", {"x", "w"}, {"y"});
  b.output("y");
  const std::vector<uint8_t> whole = b.finish();
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> bytes = whole;
      bytes[i] = uint8_t(bytes[i] ^ flip);
      try {
        for (const StoredNumbers& tensor : stored_numbers_of_onnx(bytes, "m.onnx"))
          if (tensor.offset > 0) static_cast<void>(read_stored(bytes, tensor));
      } catch (const Error& error) {
        EXPECT_EQ(error.code, kBadInput) << error.what();
      }
    }
}

}  // namespace
}  // namespace nacre::tools

// A tour of the library, in the order in which one learns it. The tests use the public API, and the helpers defined
// here: these stand for the files, the memory and the devices that an application has.
//
//   build/test/tests/unit_tests --gtest_filter='tour.*'
//
// The network reads digits: images [1, 8, 8, 1] of numbers from 0 to 16, scores [1, 10].
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "include/nacre/kernels.h"
#include "include/nacre/nacre.h"
#include "tests/project_path.h"
#include "tools/compile/training.h"
#include "tools/files/npy.h"

namespace nacre {
namespace {

// Memory that starts at a multiple of 64.
struct Block {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;
  size_t size;
  explicit Block(size_t bytes) : lines(bytes / 64 + 1), size(bytes) {}
  std::span<std::byte> bytes() { return {lines[0].bytes, size}; }
};

// Makes a model file as `nacre convert digits.onnx --policy POLICY` does, or with --train and --batch 32.
Block model_file(const char* policy = nullptr, bool train = false) {
  const std::string network = tools::project_path("tools/samples/digits.onnx");
  tools::CompileOptions options;
  if (policy != nullptr) options.policies = tools::parse_policy_options({.policy = policy});
  const std::vector<uint8_t> bytes =
      train ? tools::compile_training(
                  tools::load_network(network, {.batch = 32, .train = true}, tools::kSimplifyToTrain), {}, options)
                  .bytes
            : tools::compile(tools::load_network(network), options).bytes;
  Block block(bytes.size());
  std::memcpy(block.bytes().data(), bytes.data(), bytes.size());
  return block;
}

// Pixels of the images, 64 per image, and the digit that each image shows.
struct Digits {
  std::vector<float> pixels;
  std::vector<int32_t> labels;
};
Digits digits() {
  const auto images = tools::read_npy(tools::project_path("tools/samples/digits_images.npy")).values<uint8_t>();
  const auto labels = tools::read_npy(tools::project_path("tools/samples/digits_labels.npy")).values<uint8_t>();
  return {{images.begin(), images.end()}, {labels.begin(), labels.end()}};
}

const KernelSet* const kKernels[] = {&reference::kernels(), &reference::training_kernels()};

int digit_of(std::span<const std::byte> scores) {
  float numbers[10];
  std::memcpy(numbers, scores.data(), sizeof numbers);
  return int(std::max_element(numbers, numbers + 10) - numbers);
}

// 1. open() reads a file where it lies, copies nothing and believes nothing.
TEST(tour, a_model_is_opened_or_refused) {
  Block file = model_file();
  Model model;
  EXPECT_TRUE(model.open(file.bytes()).ok());

  file.bytes()[200] ^= std::byte{1};  // one bit
  const Status status = model.open(file.bytes());
  EXPECT_FALSE(status.ok());
  EXPECT_STRNE(sentence(status.code), "");  // what is wrong, for a person
}

// 2. measure() counts every byte before there is any memory.
TEST(tour, memory_is_counted_before_it_is_given) {
  Block file = model_file();
  Model model;
  Sizes sizes;
  Memory memory;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_TRUE(Program::measure(model, 0, kKernels, &sizes).ok());

  Block enough(sizes.total());
  EXPECT_TRUE(Memory::cut(enough.bytes(), sizes, &memory).ok());
  EXPECT_FALSE(Memory::cut(enough.bytes().first(sizes.total() - 64), sizes, &memory).ok());
}

// 3. bind() finds the kernel of each step. A run after it allocates nothing.
TEST(tour, a_bound_program_runs) {
  Block file = model_file();
  Model model;
  Program program;
  Sizes sizes;
  Memory memory;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_TRUE(Program::measure(model, 0, kKernels, &sizes).ok());
  Block block(sizes.total());
  ASSERT_TRUE(Memory::cut(block.bytes(), sizes, &memory).ok());
  ASSERT_TRUE(program.bind(model, 0, kKernels, memory).ok());

  const Digits set = digits();
  int right = 0;
  for (int i = 0; i < 100; ++i) {
    std::memcpy(program.input(0).data(), set.pixels.data() + i * 64, 64 * sizeof(float));
    ASSERT_TRUE(program.run().ok());
    right += digit_of(program.output(0)) == set.labels[size_t(i)] ? 1 : 0;
  }
  EXPECT_GE(right, 95);
}

// 4. A policy says in which numbers each layer computes. It is in the file: the program is called as before.
TEST(tour, a_policy_makes_the_file_smaller) {
  Block real = model_file("float32"), codes = model_file("int8_from_float32");
  EXPECT_LT(codes.bytes().size() * 2, real.bytes().size());

  Model model;
  Program program;
  Sizes sizes;
  Memory memory;
  ASSERT_TRUE(model.open(codes.bytes()).ok());
  ASSERT_TRUE(Program::measure(model, 0, kKernels, &sizes).ok());
  Block block(sizes.total());
  ASSERT_TRUE(Memory::cut(block.bytes(), sizes, &memory).ok());
  ASSERT_TRUE(program.bind(model, 0, kKernels, memory).ok());
  const Digits set = digits();
  std::memcpy(program.input(0).data(), set.pixels.data(), 64 * sizeof(float));
  ASSERT_TRUE(program.run().ok());
  EXPECT_EQ(digit_of(program.output(0)), set.labels[0]);
}

// A training model with its trainer's memory. Tests 5, 6 and 7 begin with it.
struct Learner {
  Block file = model_file(nullptr, true);
  Model model;
  Trainer trainer;
  Block block{0};

  Learner() {
    Sizes sizes;
    Memory memory;
    EXPECT_TRUE(model.open(file.bytes()).ok());
    EXPECT_TRUE(Trainer::measure(model, nullptr, kKernels, &sizes).ok());
    block = Block(sizes.total());
    EXPECT_TRUE(Memory::cut(block.bytes(), sizes, &memory).ok());
    EXPECT_TRUE(trainer.bind(model, nullptr, kKernels, memory).ok());
    EXPECT_TRUE(trainer.start().ok());  // the parameters are the network's
  }

  // Runs a training step on 32 images with white and black exchanged.
  Trainer::Report step(const Digits& set, float rate) {
    float pixels[32 * 64];
    for (int i = 0; i < 32 * 64; ++i) pixels[i] = 16 - set.pixels[size_t(i)];
    std::memcpy(trainer.input(0).data(), pixels, sizeof pixels);
    std::memcpy(trainer.input(1).data(), set.labels.data(), 32 * sizeof(int32_t));
    Trainer::Report report;
    EXPECT_TRUE(trainer.accumulate().ok());           // gradients, of any number of micro-batches
    EXPECT_TRUE(trainer.commit(rate, &report).ok());  // the optimizer's step
    return report;
  }
};

// 5. A training step adds up gradients, then commits them.
TEST(tour, training_lowers_the_loss) {
  Learner learner;
  const Digits set = digits();
  const float first = learner.step(set, 0.002f).loss;
  float last = first;
  for (int i = 0; i < 20; ++i) last = learner.step(set, 0.002f).loss;
  EXPECT_LT(last, first / 2);
}

// 6. A step with a gradient that is infinite or NaN is refused as a whole: nothing is learned, nothing is lost.
TEST(tour, a_refused_step_leaves_the_state_as_it_was) {
  Learner learner;
  Digits set = digits();
  const std::span<const std::byte> state = learner.trainer.state();
  const std::vector<std::byte> before(state.begin(), state.end());

  set.pixels[5] = std::numeric_limits<float>::infinity();
  const Trainer::Report report = learner.step(set, 0.01f);
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(report.refused_in_row, 1u);
  // The model has no loss scale, so no byte but the count of refused steps may change.
  const size_t changed =
      size_t(std::ranges::count_if(state, [&, i = size_t{0}](std::byte b) mutable { return b != before[i++]; }));
  EXPECT_LE(changed, 4u);
}

// Flash memory that loses power: after a number of calls nothing is programmed or erased any more.
struct Flash {
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 20, std::byte{0xFF});
  int calls_left = std::numeric_limits<int>::max();

  bool works() { return calls_left > 0 && calls_left-- > 0; }
  Storage storage() {
    return {.context = this,
            .program_bytes = 8,
            .erase_bytes = 4096,
            .bytes = bytes.size(),
            .read =
                [](void* flash, uint64_t offset, std::span<std::byte> to) {
                  std::memcpy(to.data(), static_cast<Flash*>(flash)->bytes.data() + offset, to.size());
                  return true;
                },
            .program =
                [](void* flash, uint64_t offset, std::span<const std::byte> from) {
                  auto& self = *static_cast<Flash*>(flash);
                  if (!self.works()) return false;
                  std::memcpy(self.bytes.data() + offset, from.data(), from.size());
                  return true;
                },
            .erase =
                [](void* flash, uint64_t offset) {
                  auto& self = *static_cast<Flash*>(flash);
                  if (!self.works()) return false;
                  std::memset(self.bytes.data() + offset, 0xFF, 4096);
                  return true;
                }};
  }
};

// 7. A checkpoint survives a loss of power at any call: what is loaded is whole, the old one or the new one.
TEST(tour, a_power_cut_loses_no_checkpoint) {
  const Digits set = digits();
  int cut = 0, whole = 0;
  for (int calls = 0; calls < 40; ++calls) {
    Learner learner;
    Flash flash;
    Checkpoint checkpoint(flash.storage());
    learner.step(set, 0.01f);
    ASSERT_TRUE(checkpoint.save(learner.model, learner.trainer.state()).ok());
    const std::span<const std::byte> state = learner.trainer.state();
    const std::vector<std::byte> older(state.begin(), state.end());
    learner.step(set, 0.01f);
    const std::vector<std::byte> newer(state.begin(), state.end());

    flash.calls_left = calls;
    const bool saved = checkpoint.save(learner.model, learner.trainer.state()).ok();
    flash.calls_left = std::numeric_limits<int>::max();  // the power is back

    Learner again;
    ASSERT_TRUE(Checkpoint(flash.storage()).load(again.model, again.trainer.state()).ok()) << calls;
    ASSERT_TRUE(again.trainer.restored().ok());
    EXPECT_TRUE(std::ranges::equal(again.trainer.state(), saved ? newer : older)) << calls;
    ++(saved ? whole : cut);
  }
  EXPECT_GT(cut, 0);
  EXPECT_GT(whole, 0);
}

// 8. A port is where steps run: a device, or here the host's own kernels, counted.
struct CountedPort {
  int segments = 0;
  Port port = {.name = "counted",
               .set = &reference::kernels(),
               .context = this,
               .begin =
                   [](void* counted) {
                     ++static_cast<CountedPort*>(counted)->segments;
                     return Code::kOk;
                   },
               .finish = [](void*) { return Code::kOk; },
               .copy = nullptr,
               .fill = nullptr};
};

TEST(tour, a_port_runs_the_steps) {
  Block file = model_file();
  CountedPort counted;
  const Port* const ports[] = {&counted.port};
  Places places(ports);
  Model model;
  Program program;
  Sizes sizes;
  Memory memory;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_TRUE(places.measure(model, 0, {}, &sizes).ok());
  Block block(sizes.total());
  ASSERT_TRUE(Memory::cut(block.bytes(), sizes, &memory, places.alignment()).ok());
  ASSERT_TRUE(places.bind(&program, model, 0, {}, memory).ok());

  const Digits set = digits();
  std::memcpy(program.input(0).data(), set.pixels.data(), 64 * sizeof(float));
  ASSERT_TRUE(program.run().ok());
  EXPECT_EQ(digit_of(program.output(0)), set.labels[0]);
  EXPECT_EQ(counted.segments, 1);
}

}  // namespace
}  // namespace nacre

// Claim: training allocates nothing. An allocator that ends the process is armed from before open until the end of
// training, while checkpoints are saved and loaded. Every run of the same model on the same data ends in the same
// bytes, whatever the memory held before.
//
// The models are made by hand (tests/model/cases_training.cc) and by the converter: small networks under several
// policies and optimizers.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/crc32c.h"
#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "tests/claims/killing_allocator.h"
#include "tests/differentiate/small_networks.h"
#include "tests/model/execute.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"

namespace nacre::test {
namespace {

constexpr int kSteps = 12, kMicroBatches = 2;

alignas(64) std::byte memory[4 << 20];
std::byte flash[1 << 20];
constinit uint64_t sum = 0;  // sum of outputs, so that nothing is optimised away

Storage flash_storage() {
  return {.program_bytes = 8,
          .erase_bytes = 4096,
          .bytes = sizeof flash,
          .read = [](void*, uint64_t at,
                     std::span<std::byte> to) { return std::memcpy(to.data(), flash + at, to.size()), true; },
          .program =
              [](void*, uint64_t at, std::span<const std::byte> from) {
                return std::memcpy(flash + at, from.data(), from.size()), true;
              },
          .erase = [](void*, uint64_t at) { return std::memset(flash + at, 0xFF, 4096), true; }};
}

// Fills a micro-batch in the type of the input: reals between -1 and 1, labels 0 to 2.
void fill(std::span<std::byte> input, ElementType type, uint32_t seed) {
  for (size_t i = 0; i * element_bits(type) / 8 < input.size(); ++i) {
    const uint32_t hash = (uint32_t(i) * 2654435761u + seed) * 2246822519u >> 8;
    const float real = float(hash % 2048) / 1024 - 1;
    const int32_t label = int32_t(hash % 3);
    if (type == ElementType::kFloat32) std::memcpy(input.data() + 4 * i, &real, 4);
    if (type == ElementType::kInt32) std::memcpy(input.data() + 4 * i, &label, 4);
  }
}

struct Result {
  bool good = false;
  uint32_t state_crc = 0, applied = 0;
  float first_loss = 0, last_loss = 0;
};

// Does everything from open to the last step, without an allocation of its own.
Result train(std::span<const std::byte> file, std::byte before) {
  Result result;
  std::memset(memory, int(before), sizeof memory);
  std::memset(flash, 0xFF, sizeof flash);
  static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
  Model model;
  Sizes sizes;
  Memory blocks;
  Trainer trainer;
  if (!model.open(file).ok() || !Trainer::measure(model, nullptr, kSets, &sizes).ok() ||
      !Memory::cut(memory, sizes, &blocks).ok() || !trainer.bind(model, nullptr, kSets, blocks).ok() ||
      !trainer.start().ok())
    return result;
  uint32_t feeding = 0;
  if (!model.find(trainer.immediate() ? Entry::kUpdate : Entry::kGradients, nullptr, &feeding).ok()) return result;
  Checkpoint checkpoint(flash_storage());
  for (int step = 0; step < kSteps; ++step) {
    for (int batch = 0; batch < (trainer.immediate() ? 1 : kMicroBatches); ++batch) {
      for (uint32_t i = 0; i < trainer.input_count(); ++i)
        fill(trainer.input(i), model.tensors()[model.program(feeding).inputs[i]].element,
             uint32_t(step % 4 * 31 + batch * 7) + i);
      if (!trainer.accumulate().ok()) return result;
    }
    Trainer::Report report;
    if (!trainer.commit(0.05f, &report).ok()) return result;
    result.applied += report.applied;
    (step == 0 ? result.first_loss : result.last_loss) = report.loss;
    if (trainer.infer().run(0, trainer.infer().view().step_count, 0).ok())
      for (const std::byte b : trainer.infer().output(0)) sum += uint64_t(b);
    if (step != kSteps / 2) continue;
    // A second process would do the same: start with another state, then load the saved one.
    if (!checkpoint.save(model, trainer.state()).ok() || !trainer.start().ok()) return result;
    if (!checkpoint.load(model, trainer.state()).ok() || !trainer.restored().ok()) return result;
  }
  result.state_crc = crc32c(trainer.state());
  result.good = true;
  return result;
}

// Trains one step through the C API.
bool train_c(std::span<const std::byte> file) {
  nacre_model model;
  nacre_trainer trainer;
  nacre_sizes sizes = {};
  nacre_report report = {};
  sizes.size = sizeof sizes, report.size = sizeof report;
  const nacre_kernels* const sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  if (nacre_model_open(&model, file.data(), file.size()).code != 0) return false;
  if (nacre_trainer_measure(&model, nullptr, sets, 2, &sizes).code != 0) return false;
  if (nacre_trainer_bind(&trainer, &model, nullptr, sets, 2, memory, sizeof memory).code != 0) return false;
  if (nacre_trainer_start(&trainer).code != 0) return false;
  for (uint32_t i = 0; i < nacre_trainer_input_count(&trainer); ++i) {
    size_t size = 0;
    void* const input = nacre_trainer_input(&trainer, i, &size);
    std::memset(input, 0, size);
  }
  return nacre_trainer_accumulate(&trainer, 0).code == 0 && nacre_trainer_commit(&trainer, 0.1f, &report).code == 0;
}

int runs = 0, failures = 0;

void run_armed(const std::string& name, std::span<const std::byte> file) {
  constexpr std::byte kBefore[] = {std::byte{0}, std::byte{0xA5}, std::byte{0xFF}};
  Result results[std::size(kBefore)];
  arm(true);
  for (size_t i = 0; i < std::size(kBefore); ++i) results[i] = train(file, kBefore[i]);
  const bool in_c = train_c(file);
  arm(false);
  bool good = in_c && results[0].good && results[0].applied > 0;
  for (const Result& r : results) good = good && r.good && r.state_crc == results[0].state_crc;
  ++runs;
  failures += !good;
  std::printf("%s %-44s %2u of %d steps applied, loss %.4f to %.4f, state %08x three times\n", good ? "ok  " : "FAIL",
              name.c_str(), results[0].applied, kSteps, double(results[0].first_loss), double(results[0].last_loss),
              results[0].state_crc);
}

void run_converted(const char* name, const tools::Graph& graph, const char* policy, tools::Optimizer optimizer,
                   const char* label) {
  using namespace tools;
  TrainingOptions training;
  CompileOptions compiling;
  training.optimizer.kind = optimizer;
  try {
    if (*policy != 0) compiling.policies = parse_policy_options({.policy = policy});
    const std::vector<uint8_t> bytes = compile_training(graph, training, compiling).bytes;
    const Buffer file(std::as_bytes(std::span(bytes)));
    run_armed(std::string(name) + ", " + (*policy != 0 ? policy : "float32") + ", " + label, file.bytes());
  } catch (const Error& e) {
    ++runs, ++failures;
    std::printf("FAIL %s, %s, %s: %s\n", name, policy, label, e.what());
  }
}

int claim() {
  run_armed("by hand", pack(training()).bytes());
  run_armed("by hand, immediate", pack(training_immediate()).bytes());
  const tools::Graph small = test::perceptron(), conv = test::convolutional();
  constexpr struct {
    tools::Optimizer kind;
    const char* label;
  } kOptimizers[] = {
      {tools::Optimizer::kSgd, "sgd"}, {tools::Optimizer::kAdam, "adam"}, {tools::Optimizer::kNesterov, "nesterov"}};
  for (const char* policy : {"", "float64", "bfloat16", "mixed_bfloat16", "mixed_float16", "float8/4_from_float32",
                             "int8_from_float32", "int8/static_from_float32"})
    for (const auto& optimizer : kOptimizers) {
      run_converted("perceptron", small, policy, optimizer.kind, optimizer.label);
      run_converted("convolutional", conv, policy, optimizer.kind, optimizer.label);
    }
  const bool trapped = allocator_works();
  std::printf("deliberate allocations by malloc, operator new and calloc are%s seen\n", trapped ? "" : " NOT");
  const bool shown = failures == 0 && trapped && runs >= 12;
  std::printf(
      "CLAIM training_no_heap %s: %d models trained %d steps three times with an allocator that kills, checkpoints "
      "included, "
      "%d failed; repeated runs %s\n",
      shown ? "shown" : "NOT SHOWN", runs, kSteps, failures, failures == 0 ? "identical" : "NOT all identical");
  return shown ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

int main() { return nacre::test::claim(); }

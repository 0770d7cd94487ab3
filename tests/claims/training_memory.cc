// Claim: the bytes that training takes are known before anything runs, to the byte and by class, and few are enough.
//
//   exact     Trainer::measure says what `nacre size --train` counts; blocks of exactly these bytes train, one byte
//             less of any is refused with both numbers
//   same      with steps repeated the gradients, and after the commit the state, are those without, to the bit; with
//             immediate updates the parameters after one step of SGD are
//   bounds    IC, batch 1, all layers in float32: arena below 320 KiB; last two layers on int8 ones: arena below 128
//             KiB
//
// The networks are MLPerf Tiny's; KWS has the weights of its int8 file as real numbers. The table also has JAX's peak
// for the same step (tests/peers/training_memory.json). JAX updates each parameter as soon as its gradient is ready,
// like `at once`.
//
//   320K             with an arena limit below 320 KiB
//   again            with an arena limit of 1: the least that the converter finds
//   at once          --update immediate
//   weights          constants in the file: frozen parameters, first values of trained ones; not in RAM
//   saved            of the arena: what the backward pass reads of the forward pass
//   bound            the planner's: bytes that live at one time
//   work, plan       multiply-accumulates that are done again, of those of the program; seconds of processor time to
//                    compile
//   RAM              all but the weights
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/train/trainer.h"
#include "tests/claims/claims.h"
#include "tests/model/builder.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/evaluate/training_memory.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kArenaFull = 320 * 1024, kArenaLast = 128 * 1024;

struct Subject {
  const char* name;
  const char* peer;  // its name in JAX's table
  const char* file;
  Loss loss;
  int lowest, highest;  // integers between these are the float32 inputs
  int classes;
  bool last_only;
};
constexpr Subject kSubjects[] = {
    {"AD", "AD", "ad01_fp32.tflite", Loss::kSquaredError, -20, 20, 0, false},
    {"KWS", "KWS", "kws_ref_model.tflite", Loss::kSoftmaxCrossEntropy, -128, 127, 12, false},
    {"IC", "IC", "pretrainedResnet.tflite", Loss::kSoftmaxCrossEntropy, 0, 255, 10, false},
    {"IC int8", "IC", "pretrainedResnet_quant.tflite", Loss::kSoftmaxCrossEntropy, -128, 127, 10, true},
};

struct Way {
  const char* name;
  bool immediate;
  uint64_t limit;
};
constexpr Way kWays[] = {{"", false, 0},
                         {"320K", false, kArenaFull - 1},
                         {"again", false, 1},
                         {"at once", true, 0},
                         {"at once, again", true, 1}};

struct Tally {
  uint64_t checks = 0, failures = 0;
  std::string row;

  bool that(bool holds, const std::string& what) {
    ++checks;
    if (!holds) ++failures, std::printf("FAIL %s: %s\n", row.c_str(), what.c_str());
    return holds;
  }
};

std::span<const KernelSet* const> kernels() {
  static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
  return kSets;
}

// ---- One training step in memory of exactly the size ----

struct Blocks {
  Buffer block[kBlockCount];
  Memory memory;

  Blocks(const Sizes& sizes, std::byte fill) {
    for (uint32_t i = 0; i < kBlockCount; ++i) {
      block[i] = Buffer(size_t(sizes.bytes[i]), fill);
      memory.block[i] = block[i].bytes();
    }
  }
};

void write_inputs(const Subject& subject, Trainer& trainer, const Model& model, const ProgramView& view) {
  SplitMix64 random(7);
  for (uint32_t i = 0; i < trainer.input_count(); ++i) {
    const std::span<std::byte> x = trainer.input(i);
    const ElementType type = model.tensors()[view.inputs[i]].element;
    const auto range = uint64_t(subject.highest - subject.lowest + 1);
    for (size_t at = 0; at < x.size();) {
      const float number = float(int64_t(random.next() % range) + subject.lowest);
      if (type == ElementType::kFloat32) {
        std::memcpy(x.data() + at, &number, 4), at += 4;
      } else if (type == ElementType::kInt32) {
        const auto label = int32_t(random.next() % uint64_t(subject.classes));
        std::memcpy(x.data() + at, &label, 4), at += 4;
      } else {
        x[at++] = std::byte(int8_t(number));
      }
    }
  }
}

struct Step {  // what one step leaves
  Bytes gradients, state;
  std::map<std::string, Bytes> parameters;  // by name
};

std::optional<Step> train(Tally& tally, const Subject& subject, const LoadedModel& loaded, const Sizes& sizes,
                          std::byte fill) {
  const Model& model = loaded.model();
  Blocks blocks(sizes, fill);
  Trainer trainer;
  if (!tally.that(trainer.bind(model, nullptr, kernels(), blocks.memory).ok() && trainer.start().ok(),
                  "binds in its bytes"))
    return {};
  uint32_t feeding = 0;
  if (!model.find(Entry::kGradients, nullptr, &feeding).ok() && !model.find(Entry::kUpdate, nullptr, &feeding).ok())
    return {};
  const Bytes start(trainer.state().begin(), trainer.state().end());
  write_inputs(subject, trainer, model, model.program(feeding));
  Step step;
  if (!tally.that(trainer.accumulate().ok(), "accumulates")) return {};
  if (!trainer.immediate()) {
    const auto sums = blocks.memory.block[kStepSums];
    step.gradients.assign(sums.begin(), sums.end());
  }
  Trainer::Report report;
  const Status committed = trainer.commit(0x1p-10f, &report);
  if (!tally.that(committed.ok() && report.applied, "commits")) return {};
  step.state.assign(trainer.state().begin(), trainer.state().end());
  size_t changed = 0;
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    const TensorRecord& r = model.tensors()[id];
    if (r.region != Region::kState || r.alias_of != kNoIndex || (r.flags & kTrainable) == 0) continue;
    const auto from = step.state.begin() + ptrdiff_t(r.offset);
    step.parameters[loaded.tensor_name(id)] = Bytes(from, from + ptrdiff_t(r.bytes));
    changed += std::memcmp(&*from, start.data() + r.offset, size_t(r.bytes)) != 0;
  }
  tally.that(2 * changed >= step.parameters.size(), "most parameters change");
  return step;
}

void one_byte_less(Tally& tally, const Model& model, const Sizes& sizes) {
  for (uint32_t i = 0; i < kBlockCount; ++i) {
    if (sizes.bytes[i] == 0) continue;
    Blocks blocks(sizes, std::byte{0});
    blocks.block[i] = Buffer(size_t(sizes.bytes[i]) - 1);
    blocks.memory.block[i] = blocks.block[i].bytes();
    Trainer trainer;
    const Status s = trainer.bind(model, nullptr, kernels(), blocks.memory);
    tally.that(
        s.code == Code::kMemorySize && s.index == i && s.needed == sizes.bytes[i] && s.given == sizes.bytes[i] - 1,
        "one byte less of block " + std::to_string(i) + " is refused with both numbers");
  }
}

// ---- The table ----

void exact(Tally& tally, const LoadedModel& loaded, const TrainingMemory& m, Sizes* sizes) {
  if (!tally.that(Trainer::measure(loaded.model(), nullptr, kernels(), sizes).ok(), "measures")) return;
  uint64_t arena = 0;
  for (uint32_t block = kArena; block < kBlockCount; ++block) arena += sizes->bytes[block];
  tally.that(m.state() == sizes->bytes[kState], "state");
  tally.that(m.gradients + m.sums == sizes->bytes[kStepSums], "gradients and sums");
  tally.that(m.arena == arena, "arena");
  tally.that(m.scratch == sizes->bytes[kScratch], "scratch");
  tally.that(m.derived == sizes->bytes[kDerived] && m.stream == sizes->bytes[kStream], "derived and stream");
  tally.that(m.calls == sizes->bytes[kCalls] + sizes->bytes[kPrepared], "calls");
}

struct Result {
  TrainingMemory memory;
  std::optional<Step> step;
};

Result measure_row(Tally& tally, const Subject& subject, const Graph& network, bool last, const Way& way) {
  TrainingOptions training;
  training.loss.kind = subject.loss;
  training.train.last_layers = last ? 2 : 0;
  training.immediate = way.immediate;
  training.arena_limit = way.limit;
  const std::clock_t begun = std::clock();
  const TrainingModel made = compile_training(network, training, {});
  const double seconds = double(std::clock() - begun) / CLOCKS_PER_SEC;
  const LoadedModel loaded(made.bytes, tally.row, "");
  Result result = {.memory = training_memory(loaded, *find_machine("host")), .step = {}};
  const TrainingMemory& m = result.memory;
  Sizes sizes;
  exact(tally, loaded, m, &sizes);
  one_byte_less(tally, loaded.model(), sizes);
  result.step = train(tally, subject, loaded, sizes, way.limit == 0 ? std::byte{0xA5} : std::byte{0x5A});
  const Rematerialized& again = made.rematerialized;
  std::printf("%-36s %9llu %9llu %9llu %7llu %9llu %9llu %9llu %7llu %6llu %5.1f%% %5.1f", tally.row.c_str(),
              static_cast<unsigned long long>(m.weights), static_cast<unsigned long long>(m.parameters),
              static_cast<unsigned long long>(m.gradients), static_cast<unsigned long long>(m.moments),
              static_cast<unsigned long long>(m.activations), static_cast<unsigned long long>(m.arena),
              static_cast<unsigned long long>(m.bound), static_cast<unsigned long long>(m.scratch),
              static_cast<unsigned long long>(m.calls),
              again.work_before == 0 ? 0.0 : 100 * double(again.work) / double(again.work_before), seconds);
  return result;
}

// Returns the peak of JAX for such a step; 0 if the table has none.
uint64_t peer_peak(const nacre::tools::Json& table, const Subject& subject, bool last, int batch) {
  for (const nacre::tools::Json& row : table.at("rows"))
    if (row.at("network") == subject.peer && row.at("trains") == (last ? "last" : "full") && row.at("batch") == batch)
      return row.at("peak");
  return 0;
}

void compare(Tally& tally, const Way& way, const Result& plain, const Result& row) {
  if (!plain.step || !row.step) return;
  if (!way.immediate) {
    tally.that(row.step->gradients == plain.step->gradients, "repeated steps give the same gradients, to the bit");
    tally.that(row.step->state == plain.step->state, "and the same state");
  }
  tally.that(row.step->parameters == plain.step->parameters, "the same parameters after one step of SGD, to the bit");
}

void bounds(Tally& tally, const Subject& subject, bool last, int batch, const Way& way, const TrainingMemory& m) {
  if (batch != 1) return;
  if (std::string_view(subject.name) == "IC" && !last && way.limit == kArenaFull - 1)
    tally.that(m.arena < kArenaFull, "the arena is below 320 KiB");
  if (subject.last_only) tally.that(m.arena < kArenaLast, "the arena is below 128 KiB");
}

int claim() {
  const std::filesystem::path models = tools::shared_path("models/mlperf_tiny");
  std::ifstream file(tools::project_path("tests/peers/training_memory.json"));
  const nacre::tools::Json table = nacre::tools::Json::parse(file);
  std::printf(
      "bytes; JAX %s, %s backend: peak of the same step, frozen layers in float32\n%-36s %9s %9s %9s %7s %9s %9s %9s "
      "%7s %6s %6s %5s %9s %9s\n",
      table.at("jax").get<std::string>().c_str(), table.at("backend").get<std::string>().c_str(), "", "weights",
      "parameter", "gradients", "moments", "saved", "arena", "bound", "scratch", "calls", "work", "plan", "RAM", "JAX");
  Tally tally;
  int rows = 0, missing = 0;
  for (const Subject& subject : kSubjects) {
    const std::string path = (models / subject.file).string();
    if (!std::filesystem::exists(path)) {
      std::printf("%s: %s is not there\n", subject.name, path.c_str());
      ++missing;
      continue;
    }
    for (const bool last : {false, true})
      for (const int batch : {1, 16}) {
        if (subject.last_only && !last) continue;
        const Graph network = load_network(path, {.batch = batch, .io_nhwc = false}, {.fold_batch_norm = false});
        std::optional<Result> plain;
        for (const Way& way : kWays) {
          const bool named = std::string_view(way.name) == "320K";
          if (named && (std::string_view(subject.name) != "IC" || last || batch != 1)) continue;
          tally.row = std::string(subject.name) + (last ? ", last two, batch " : ", full, batch ") +
                      std::to_string(batch) + (*way.name != 0 ? std::string(", ") + way.name : "");
          Result row = measure_row(tally, subject, network, last, way);
          std::printf(" %9llu %9llu\n", static_cast<unsigned long long>(row.memory.total()),
                      static_cast<unsigned long long>(peer_peak(table, subject, last, batch)));
          ++rows;
          if (!plain && !last && batch == 1 && row.memory.gradients > row.memory.parameters)
            std::printf(
                "%s: gradients %llu bytes: %llu of the parameters, the rest because each begins at a multiple of %d\n",
                subject.name, static_cast<unsigned long long>(row.memory.gradients),
                static_cast<unsigned long long>(row.memory.parameters), int(kAlignment));
          bounds(tally, subject, last, batch, way, row.memory);
          if (!plain) plain = std::move(row);
          else compare(tally, way, *plain, row);
        }
      }
  }
  const bool shown = tally.failures == 0 && missing == 0;
  std::printf("CLAIM training_memory %s: %d rows (%d networks missing), %llu checks, %llu failed\n",
              shown                 ? "shown"
              : tally.failures == 0 ? "partly shown"
                                    : "NOT SHOWN",
              rows, missing, static_cast<unsigned long long>(tally.checks),
              static_cast<unsigned long long>(tally.failures));
  return tally.failures != 0 ? 1 : missing != 0 ? 77 : 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(training_memory) {
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM training_memory NOT SHOWN: %s\n", error.what());
    return 1;
  }
}

// Does in C++ what the C programs of tools/samples/c do, with the arguments of each behind its name. The claim c_whole
// compares the bytes that both write.
//
//   peer infer|stream|threads|profile|train ARGUMENTS..
#include "tests/claims/c_whole/peer.h"

#include <nacre/files.h>
#include <nacre/numeric.h>
#include <nacre/schedule.h>
#include <nacre/threads.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#ifdef __aarch64__
#include <nacre/arm.h>
namespace fast = nacre::arm;
#else
#include <nacre/x86.h>
namespace fast = nacre::x86;
#endif

namespace nacre::test {
namespace {

std::vector<const KernelSet*> best_kernels() {
  std::vector<const KernelSet*> sets;
  if (fast::best() != fast::Tier::kCount) sets.push_back(&fast::kernels(fast::best()));
  sets.push_back(&reference::kernels());
  sets.push_back(&reference::training_kernels());
  return sets;
}

// A program in memory of its own.
struct Bound {
  Program program;
  std::vector<Line64> block;

  Bound(const Model& model, const Workers* workers) {
    const std::vector<const KernelSet*> kernels = best_kernels();
    Machine machine;
    if (workers != nullptr) machine.workers = uint32_t(workers->count);
    Sizes sizes;
    require(Program::measure(model, 0, kernels, &sizes, machine));
    block.resize(size_t(sizes.total(64) / 64 + 1));
    Memory memory;
    require(Memory::cut({block.data()->bytes, block.size() * 64}, sizes, &memory, 64));
    require(program.bind(model, 0, kernels, memory, workers));
  }
  void write_outputs(Output& out) const {
    for (uint32_t i = 0; i < program.output_count(); ++i) out.write(program.output(i));
  }
};

size_t numbers_of(const TensorInfo& info) {
  size_t numbers = 1;
  for (const int32_t dim : info.dims()) numbers *= size_t(dim);
  return numbers;
}

// Writes real numbers as the input's type: float32, float16, bfloat16, or integers with one scale, which are rounded
// half away from zero.
void write_numbers(const TensorInfo& info, std::span<const float> real, std::span<std::byte> to) {
  const auto put = [&](size_t i, auto value) { std::memcpy(to.data() + i * sizeof value, &value, sizeof value); };
  const auto code = [&](float v, double low, double high) {
    return std::clamp(std::round(double(v / info.scale)) + info.zero, low, high);
  };
  for (size_t i = 0; i < real.size(); ++i) switch (info.element()) {
      case ElementType::kFloat32: put(i, real[i]); break;
      case ElementType::kFloat16: put(i, Float16(real[i])); break;
      case ElementType::kBfloat16: put(i, Bfloat16(real[i])); break;
      case ElementType::kInt8: put(i, int8_t(code(real[i], -128, 127))); break;
      case ElementType::kUint8: put(i, uint8_t(code(real[i], 0, 255))); break;
      case ElementType::kInt16: put(i, int16_t(code(real[i], -32768, 32767))); break;
      default: std::fprintf(stderr, "another type of input\n"), std::exit(4);
    }
}

struct Opened {
  File file;
  Model model;
  TensorInfo in;

  explicit Opened(const char* path) : file(path) {
    require(model.open(file.bytes()));
    require(model.input(0, 0, &in));
  }
};

std::vector<float> from_bytes(std::span<const std::byte> bytes) {
  std::vector<float> real;
  for (const std::byte b : bytes) real.push_back(float(uint8_t(b)));
  return real;
}

void infer(char** arguments) {
  const Opened opened(arguments[0]);
  const File samples(arguments[1]);
  Output out(arguments[2]);
  const Bound bound(opened.model, nullptr);
  const size_t numbers = numbers_of(opened.in);
  for (size_t at = 0; at + numbers <= samples.size; at += numbers) {
    write_numbers(opened.in, from_bytes(samples.bytes().subspan(at, numbers)), bound.program.input(0));
    require(bound.program.run());
    bound.write_outputs(out);
  }
}

void stream(char** arguments) {
  const Opened opened(arguments[0]);
  const File samples(arguments[1]);
  Output out(arguments[2]);
  const Bound first(opened.model, nullptr), second(opened.model, nullptr);
  require(first.program.start());
  require(second.program.start());
  const size_t numbers = numbers_of(opened.in), frames = samples.size / (numbers * sizeof(int16_t));
  for (size_t frame = 0; frame < frames; ++frame) {
    std::vector<float> real(numbers);
    for (size_t i = 0; i < numbers; ++i) {
      int16_t sample;
      std::memcpy(&sample, samples.bytes().data() + (frame * numbers + i) * sizeof sample, sizeof sample);
      real[i] = float(sample) / 32768.0f;
    }
    for (const Bound* bound : {&first, &second}) {
      if (bound == &second && frame < frames / 2) continue;
      write_numbers(opened.in, real, bound->program.input(0));
      require(bound->program.run());
      bound->write_outputs(out);
    }
  }
}

void threads(char** arguments) {
  const Opened opened(arguments[0]);
  const File samples(arguments[1]);
  Output out(arguments[2]);
  ThreadPool pool(std::atoi(arguments[3]));
  const Bound bound(opened.model, pool.workers());
  const size_t batch = size_t(opened.in.dims()[0]), row = numbers_of(opened.in) / batch, all = samples.size / row;
  for (size_t first = 0; first < all; first += batch) {
    const size_t rows = std::min(batch, all - first);
    write_numbers(opened.in, from_bytes(samples.bytes().subspan(first * row, rows * row)), bound.program.input(0));
    require(bound.program.run_rows(uint32_t(rows)));
    out.write(bound.program.output(0).first(bound.program.output(0).size() / batch * rows));
  }
}

const char* name_of(Kernel kernel) {
  std::vector<std::span<const reference::NamedEntry>> lists = {reference::list(), reference::training_list()};
  if (fast::best() != fast::Tier::kCount) lists.insert(lists.begin(), fast::list(fast::best()));
  for (const std::span<const reference::NamedEntry> list : lists)
    for (const reference::NamedEntry& named : list)
      if (named.entry->run == kernel) return named.name;
  return "?";
}

std::string line_of(const Model& model, const Program& program, uint32_t step) {
  const uint32_t index = program.view().first_step + step;
  const StepRecord& record = model.steps()[index];
  const char* const layer = model.layer_name(index);
  char text[32];
  std::snprintf(text, sizeof text, "%x", program.packed_operands(step));
  std::string line = std::to_string(step) + " " + find_rule(record.op)->name + " " + (layer != nullptr ? layer : "") +
                     " " + name_of(program.kernel(step)) + " " + text;
  for (uint32_t i = 0; i < record.operand_count; ++i) {
    const uint32_t word = model.operands(record)[i], tensor = word & kOperandIdMask;
    if (Role(word >> 30) == Role::kIn || tensor == kNoOperand) continue;
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const std::byte b : program.bytes(tensor)) hash = (hash ^ uint8_t(b)) * 16777619u;
    std::snprintf(text, sizeof text, " %u:%08x", tensor, hash);
    line += text;
  }
  return line + "\n";
}

void profile(char** arguments) {
  const Opened opened(arguments[0]);
  const File samples(arguments[1]);
  Output out(arguments[2]);
  const Bound bound(opened.model, nullptr);
  const size_t numbers = numbers_of(opened.in);
  for (size_t at = 0; at + numbers <= samples.size; at += numbers) {
    write_numbers(opened.in, from_bytes(samples.bytes().subspan(at, numbers)), bound.program.input(0));
    for (uint32_t step = 0; step < bound.program.view().step_count; ++step) {
      require(bound.program.run(step, step + 1, 0));
      const std::string line = line_of(opened.model, bound.program, step);
      out.write(std::as_bytes(std::span(line)));
    }
  }
}

void train(char** arguments) {
  const File network(arguments[0]), samples(arguments[1]), labels(arguments[2]);
  const std::vector<const KernelSet*> kernels = best_kernels();
  Model model;
  Trainer trainer;
  Sizes sizes;
  Memory memory;
  require(model.open(network.bytes()));
  require(Trainer::measure(model, nullptr, kernels, &sizes));
  std::vector<Line64> block(size_t(sizes.total(64) / 64 + 1));
  require(Memory::cut({block.data()->bytes, block.size() * 64}, sizes, &memory, 64));
  require(trainer.bind(model, nullptr, kernels, memory));
  require(trainer.start());
  const auto steps = uint32_t(std::strtoul(arguments[4], nullptr, 10));
  const Schedule schedule = {.kind = ScheduleKind::kCosine, .rate = 0.01f, .steps = 2000, .end = 0.1f};
  const auto take = [&](const File& file, uint32_t input, size_t batch) {
    const std::span<std::byte> to = trainer.input(input);
    std::memcpy(to.data(), file.bytes().data() + batch % (file.size / to.size()) * to.size(), to.size());
  };
  CheckpointFiles files;
  if (!files.open(arguments[3], CheckpointFiles::Use::kSave)) {
    std::fprintf(stderr, "%s\n", files.problem().sentence().c_str());
    std::exit(1);
  }
  Checkpoint checkpoint(files.storage(model));
  for (uint32_t done = 0; done < steps;) {
    for (uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      take(samples, 0, 2 * size_t(done) + micro_batch);
      take(labels, 1, 2 * size_t(done) + micro_batch);
      require(trainer.accumulate());
    }
    require(trainer.commit(schedule.at(done), nullptr));
    ++done;
    if (done % 4 == 0 || done == steps)
      require(checkpoint.save(model, trainer.state(), {.note = std::as_bytes(std::span(&done, 1))}));
  }
  Output(arguments[5]).write(trainer.state());
}

}  // namespace
}  // namespace nacre::test

int main(int count, char** arguments) {
  using namespace nacre::test;
  const struct {
    const char* name;
    int arguments;
    void (*run)(char** arguments);
  } programs[] = {{"infer", 3, infer},
                  {"stream", 3, stream},
                  {"threads", 4, threads},
                  {"profile", 3, profile},
                  {"train", 6, train}};
  for (const auto& program : programs)
    if (count == program.arguments + 2 && program.name == std::string(arguments[1])) {
      program.run(arguments + 2);
      return 0;
    }
  return 2;
}

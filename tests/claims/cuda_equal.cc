// Claims about a real GPU, through the CUDA port; NOT SHOWN, with the port's sentence, where there is none.
//
//   cuda_equal    each entry of the reference on random cases, and the models given: integers and codes are those of
//                 the host to the bit; floats within the bounds below, and how many of them to the bit
//   cuda_trains   the training models given: after 200 steps the loss is within 1% of the host's; a step whose input is
//                 infinite is refused where the host refuses it, and leaves the state as it was but for the loss scale
//                 and its counters
//
//   cuda_equal [cases per entry] [seed] [MODEL..]
//   cuda_trains MODEL..                                  both with "simulated" first: on the tests' device
//
// Bounds of a float of type T: one unit of T's last place where the exact result lies between two, and 32 2^-24 of the
// largest magnitude of the tensor: functions of CUDA's mathematics are within 2 ulp, those of the host within 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "engine/run/bound_step.h"
#include "engine/run/places.h"
#include "engine/train/trainer.h"
#include "ports/cuda/cuda_port.h"
#include "tests/claims/claims.h"
#include "tests/claims/cuda_steps.h"
#ifdef NACRE_SIMULATED_DEVICE
#include "ports/fake/fake_driver.h"
#endif

namespace nacre::test {
namespace {

struct Tally {
  uint64_t cases = 0, elements = 0, exact = 0, models = 0, failures = 0;

  bool that(bool holds, const std::string& what) {
    if (!holds && ++failures <= 30) std::printf("FAIL %s\n", what.c_str());
    return holds;
  }
};

unsigned long long n(uint64_t v) { return v; }

// The GPU of this machine, or the simulated one.
struct Gpu {
#ifdef NACRE_SIMULATED_DEVICE
  std::optional<fake::FakeDriver> fake;
#endif
  cuda::Device device;
  bool open = false;

  explicit Gpu([[maybe_unused]] bool simulated) {
#ifdef NACRE_SIMULATED_DEVICE
    static const void* const kModules[] = {fake::FakeDriver::module()};
    if (simulated) {
      open = device.open(&fake.emplace().driver(), kModules);
      return;
    }
#endif
    open = device.open(cuda::load_driver(), cuda::modules());
  }
  ~Gpu() { device.close(); }
};

// ---- Bounds ----

double unit_of(ElementType type) {  // 2^-bits of the significand behind its first
  switch (type) {
    case ElementType::kFloat64: return 0x1p-52;
    case ElementType::kFloat32: return 0x1p-23;
    case ElementType::kFloat16: return 0x1p-10;
    case ElementType::kBfloat16: return 0x1p-7;
    case ElementType::kFloat8E4M3: return 0x1p-3;
    case ElementType::kFloat8E5M2: return 0x1p-2;
    default: return 0;
  }
}

bool within(const Array& got, const Array& want, Tally& tally) {
  const double unit = unit_of(want.element), wide = want.element == ElementType::kFloat64 ? 0x1p-53 : 0x1p-24;
  if (unit == 0) {
    tally.elements += uint64_t(want.elements()), tally.exact += uint64_t(want.elements());
    return got.bytes == want.bytes;
  }
  double largest = 0;
  for (int64_t i = 0; i < want.elements(); ++i)
    if (std::isfinite(want.real(i))) largest = std::max(largest, std::abs(want.real(i)));
  bool all = true;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double a = got.real(i), b = want.real(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    ++tally.elements, tally.exact += same;
    all &= same || std::abs(a - b) <= unit * std::abs(b) + 32 * wide * largest;
  }
  return all;
}

// ---- Single kernels ----

// As execute(), with every operand in the device's memory.
Execution execute_on(const Port& port, std::span<std::byte> memory, const KernelEntry& entry, const Step& step,
                     const Execution& host) {
  std::vector<Array> arrays = step.inputs;
  const size_t inputs = arrays.size();
  arrays.insert(arrays.end(), host.outputs.begin(), host.outputs.end());
  StepRecord record = {};
  record.op = entry.op;
  record.word_count = uint8_t(step.words.size());
  record.operand_count = uint8_t(arrays.size());
  record.rounding = entry.rounding;
  record.layer = record.guard = kNoIndex;
  std::vector<std::max_align_t> block(size_t(call_bytes(uint32_t(arrays.size()))) / sizeof(std::max_align_t) + 1);
  Tensor* const operands = write_call(block.data(), entry, record, nullptr)->operands();
  std::vector<TensorRecord> records(arrays.size());
  size_t at = 0;
  Execution result;
  for (size_t i = 0; i < arrays.size(); ++i) {
    operands[i] = {nullptr, nullptr};
    if (!arrays[i].present()) continue;
    records[i] = record_of(arrays[i]);
    operands[i] = {memory.data() + at, &records[i]};
    const size_t bytes = arrays[i].bytes.size();
    at += size_t(round_up(bytes + 1, 256));
    if (at > memory.size()) return result.code = Code::kMemorySize, result;
    result.code = i < inputs
                      ? port.copy(port.context, CopyDirection::kToPort, operands[i].data, arrays[i].bytes.data(), bytes)
                      : port.fill(port.context, operands[i].data, std::byte{0xA5}, bytes);
    if (result.code != Code::kOk) return result;
  }
  const Words words = {step.words.data(), int(step.words.size())};
  const Operands all = {operands, int(arrays.size()), 0};
  const auto scratch = size_t(scratch_bytes(entry, words, all));
  if (at + scratch > memory.size()) return result.code = Code::kMemorySize, result;
  std::vector<std::max_align_t> prepared(size_t(prepared_bytes(entry, words, all)) / sizeof(std::max_align_t) + 1);
  auto& call = *reinterpret_cast<Call*>(block.data());
  call.prepared = prepared.data();
  const Args args = {call, words, 0, memory.subspan(at, scratch), nullptr, port.context};
  if (result.code = prepare_step(entry, args); result.code != Code::kOk) return result;
  if (result.code = port.begin(port.context); result.code != Code::kOk) return result;
  result.code = entry.run(args);
  for (size_t i = 0; i < arrays.size() && result.code == Code::kOk; ++i) {
    const bool updated = !variadic(entry) && i < inputs && (entry.operands[i].role & 3) == uint8_t(Role::kUpdate);
    if (!arrays[i].present() || (i < inputs && !updated)) continue;
    std::vector<Array>& to = updated ? result.updated : result.outputs;
    to.push_back(arrays[i]);
    result.code = port.copy(port.context, CopyDirection::kFromPort, to.back().bytes.data(), operands[i].data,
                            to.back().bytes.size());
  }
  const Code finished = port.finish(port.context);
  if (result.code == Code::kOk) result.code = finished;
  return result;
}

void kernels(Tally& tally, cuda::Device& device, int cases, uint64_t seed) {
  const std::vector<reference::NamedEntry> named = all_entries();
  const std::span<const KernelEntry* const> entries = device.port().set->entries;
  const std::span<std::byte> memory = device.allocate(size_t{16} << 20);
  if (!tally.that(!memory.empty() && named.size() == entries.size(), "the device has every entry")) return;
  for (size_t e = 0; e < named.size(); ++e) {
    Random random(seed * 1000 + e);
    for (int i = 0; i < cases; ++i, ++tally.cases) {
      const Step step = random_step(*named[e].entry, named, random);
      const Words words = {step.words.data(), int(step.words.size())};
      if (int(step.inputs.size()) > cuda::kMostOperands - 4 || words.count > cuda::kMostWords) continue;
      const Execution host = execute(*named[e].entry, step.words, step.inputs);
      if (host.code != Code::kOk && host.outputs.empty() && host.updated.empty()) continue;
      const Execution gpu = execute_on(device.port(), memory, *entries[e], step, host);
      const std::string name = named[e].name;
      if (!tally.that(gpu.code == host.code, name + ": ends with the host's code: " + device.sentence()) ||
          host.code != Code::kOk)
        continue;
      bool holds = gpu.outputs.size() == host.outputs.size() && gpu.updated.size() == host.updated.size();
      for (size_t o = 0; holds && o < host.outputs.size(); ++o) holds = within(gpu.outputs[o], host.outputs[o], tally);
      for (size_t o = 0; holds && o < host.updated.size(); ++o) holds = within(gpu.updated[o], host.updated[o], tally);
      tally.that(holds, name + ": numbers are the host's");
    }
  }
  device.release(memory);
}

// ---- Models ----

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
struct Block {
  std::unique_ptr<std::byte, AlignedFree> data;
  size_t size = 0;

  explicit Block(size_t bytes = 0)
      : data(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096))), size(bytes) {
    std::memset(data.get(), 0, bytes);
  }
  std::span<std::byte> bytes() const { return {data.get(), size}; }
};

const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};

bool read_model(const char* path, Block* block) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  *block = Block(bytes.size());
  std::memcpy(block->data.get(), bytes.data(), bytes.size());
  return !bytes.empty();
}

// Numbers of a seed: reals between -1 and 1, labels 0 to 2.
void fill_input(std::span<std::byte> input, ElementType type, uint32_t seed) {
  const size_t unit = std::max<size_t>(1, element_bits(type) / 8);
  for (size_t i = 0; i * unit < input.size(); ++i) {
    const uint32_t hash = (uint32_t(i) * 2654435761u + seed * 40503u) * 2246822519u >> 8;
    const float real = float(hash % 2048) / 1024 - 1;
    const uint32_t integer = unit == 4 ? hash % 3 : hash;
    const void* const from = type == ElementType::kFloat32 ? static_cast<const void*>(&real) : &integer;
    std::memcpy(input.data() + unit * i, from, std::min<size_t>(unit, 4));
  }
}

// A program or a trainer with memory of its own, on the host or with places.
struct Bound {
  Model model;
  Sizes sizes;
  std::optional<Block> block;
  Memory memory;
  Program program;
  Trainer trainer;

  Status infer(const Block& file, uint32_t index, Places* places, cuda::Device* device) {
    TRY(model.open(file.bytes()));
    TRY(places == nullptr ? Program::measure(model, index, kSets, &sizes)
                          : places->measure(model, index, kSets, &sizes));
    TRY(cut(places, device));
    return places == nullptr ? program.bind(model, index, kSets, memory)
                             : places->bind(&program, model, index, kSets, memory);
  }
  Status train(const Block& file, Places* places, cuda::Device* device) {
    TRY(model.open(file.bytes()));
    TRY(Trainer::measure(model, nullptr, kSets, &sizes, {}, places));
    TRY(cut(places, device));
    TRY(trainer.bind(model, nullptr, kSets, memory, nullptr, places));
    return trainer.start();
  }

 private:
  Status cut(Places* places, cuda::Device* device) {
    const uint32_t alignment = places == nullptr ? uint32_t(kAlignment) : places->alignment();
    block.emplace(size_t(sizes.total(alignment)));
    TRY(Memory::cut(block->bytes(), sizes, &memory, alignment));
    if (places == nullptr || places->bytes(1) == 0) return {};
    return places->give(1, device->allocate(size_t(places->bytes(1))));
  }
};

Array array_of(const Program& program, const Model& model, uint32_t output) {
  const TensorRecord& r = model.tensors()[program.view().outputs[output]];
  Array array = make_array(r.element, {r.dims, r.dims + r.rank});
  std::memcpy(array.bytes.data(), program.output(output).data(), array.bytes.size());
  return array;
}

void infer(Tally& tally, cuda::Device& device, const std::string& path) {
  Block file;
  if (!tally.that(read_model(path.c_str(), &file), path + ": is read")) return;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  Bound host, gpu;
  uint32_t index = 0;
  if (!tally.that(host.model.open(file.bytes()).ok() && host.model.find(Entry::kInfer, nullptr, &index).ok() &&
                      host.infer(file, index, nullptr, nullptr).ok() && gpu.infer(file, index, &places, &device).ok(),
                  path + ": binds to host and device: " + device.sentence()))
    return;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    for (Bound* bound : {&host, &gpu})
      for (uint32_t i = 0; i < bound->program.input_count(); ++i)
        fill_input(bound->program.input(i), bound->model.tensors()[bound->program.view().inputs[i]].element, seed);
    if (!tally.that(host.program.run().ok() && gpu.program.run().ok(), path + ": runs: " + device.sentence())) break;
    for (uint32_t o = 0; o < host.program.output_count(); ++o)
      tally.that(within(array_of(gpu.program, gpu.model, o), array_of(host.program, host.model, o), tally),
                 path + ": outputs are the host's");
  }
  ++tally.models;
  gpu.program.unbind();
}

bool step(Bound& bound, uint32_t seed, bool infinite, Trainer::Report* report) {
  uint32_t feeding = 0;
  if (!bound.model.find(Entry::kGradients, nullptr, &feeding).ok()) return false;
  for (uint32_t i = 0; i < bound.trainer.input_count(); ++i) {
    const std::span<std::byte> input = bound.trainer.input(i);
    const ElementType type = bound.model.tensors()[bound.model.program(feeding).inputs[i]].element;
    fill_input(input, type, seed % 8 * 16 + i);
    const float infinity = std::numeric_limits<float>::infinity();
    if (infinite && type == ElementType::kFloat32) std::memcpy(input.data(), &infinity, sizeof infinity);
  }
  return bound.trainer.accumulate().ok() && bound.trainer.commit(0.01f, report).ok();
}

void train(Tally& tally, cuda::Device& device, const std::string& path) {
  constexpr uint32_t kSteps = 200;
  Block file;
  if (!tally.that(read_model(path.c_str(), &file), path + ": is read")) return;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  Bound host, gpu;
  if (!tally.that(host.train(file, nullptr, nullptr).ok() && gpu.train(file, &places, &device).ok(),
                  path + ": is bound to host and device: " + device.sentence()))
    return;
  Trainer::Report expected, found;
  for (uint32_t i = 0; i < kSteps; ++i)
    if (!tally.that(step(host, i, false, &expected) && step(gpu, i, false, &found),
                    path + ": takes a step: " + device.sentence()))
      return;
  std::printf("%s: loss after %u steps %.6g on the host, %.6g on the device\n", path.c_str(), kSteps,
              double(expected.loss), double(found.loss));
  tally.that(std::abs(found.loss - expected.loss) <= 0.01f * std::abs(expected.loss) + 1e-6f,
             path + ": the loss is within 1% of the host's");
  // Where the host refuses a step with an infinity (float8 codes hold none: their step is applied), all of the state
  // but the loss scale and its counters is what it was.
  const std::vector<std::byte> before(gpu.trainer.state().begin(), gpu.trainer.state().end());
  if (!tally.that(step(host, 0, true, &expected) && step(gpu, 0, true, &found),
                  path + ": takes a step with an infinity"))
    return;
  size_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] != gpu.trainer.state()[i];
  tally.that(found.applied == expected.applied && (found.applied || changed <= 16),
             path + ": a refused step leaves the state as it was");
  ++tally.models;
}

int told(const char* claim, const Tally& tally, bool simulated) {
  if (tally.failures != 0) {
    std::printf("CLAIM %s NOT SHOWN: %llu checks failed\n", claim, n(tally.failures));
    return 1;
  }
  std::printf("CLAIM %s %s: %llu cases of every entry, %llu models; %llu numbers, %llu of them to the bit\n", claim,
              simulated ? "NOT SHOWN: no GPU; its checks hold on the simulated device" : "shown", n(tally.cases),
              n(tally.models), n(tally.elements), n(tally.exact));
  return simulated ? 77 : 0;
}

// Arguments behind "simulated", where that is the first.
template <class Run>
int on_gpu(const char* claim, int count, char** arguments, const Run& run) {
  const bool simulated = count > 1 && std::strcmp(arguments[1], "simulated") == 0;
  Gpu gpu(simulated);
  if (!gpu.open) {
    std::printf("CLAIM %s NOT SHOWN: %s\n", claim, gpu.device.sentence());
    return 77;
  }
  std::printf("%s\n", gpu.device.name());
  Tally tally;
  run(tally, gpu.device, count - (simulated ? 1 : 0), arguments + (simulated ? 1 : 0));
  return told(claim, tally, simulated);
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_equal) {
  using namespace nacre;
  return test::on_gpu(
      "cuda_equal", count, arguments, [](test::Tally& tally, cuda::Device& device, int n, char** words) {
        test::kernels(tally, device, n > 1 ? std::atoi(words[1]) : 8, n > 2 ? std::strtoull(words[2], nullptr, 10) : 1);
        for (int i = 3; i < n; ++i) test::infer(tally, device, words[i]);
      });
}

NACRE_CLAIM(cuda_trains) {
  using namespace nacre;
  return test::on_gpu("cuda_trains", count, arguments,
                      [](test::Tally& tally, cuda::Device& device, int n, char** words) {
                        for (int i = 1; i < n; ++i) test::train(tally, device, words[i]);
                      });
}

#include "tests/claims/cuda_models.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/kernels/training.h"
#include "engine/run/bound_step.h"

namespace nacre::test {
namespace {

const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};

}  // namespace

GpuDriver::GpuDriver([[maybe_unused]] bool simulated)
    : driver(cuda::load_driver()), library(cuda::load_cublaslt(driver)), modules(cuda::modules()) {
#ifdef NACRE_SIMULATED_DEVICE
  static const void* const kModules[] = {fake::FakeDriver::module()};
  if (!simulated) return;
  driver = &fake.emplace().driver(), modules = kModules;
  library = &fake_library.emplace(*fake).library();
#endif
}

// ---- Models ----

Block::Block(size_t bytes)
    : data(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096))), size(bytes) {
  std::memset(data.get(), 0, bytes);
}

bool read_model(const char* path, Block* block) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  *block = Block(bytes.size());
  std::memcpy(block->data.get(), bytes.data(), bytes.size());
  return !bytes.empty();
}

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

Status Bound::infer(const Block& file, uint32_t index, Places* places, cuda::Device* device) {
  NACRE_TRY(model.open(file.bytes()));
  NACRE_TRY(places == nullptr ? Program::measure(model, index, kSets, &sizes)
                              : places->measure(model, index, kSets, &sizes));
  NACRE_TRY(cut(places, device));
  return places == nullptr ? program.bind(model, index, kSets, memory)
                           : places->bind(&program, model, index, kSets, memory);
}

Status Bound::train(const Block& file, Places* places, cuda::Device* device) {
  NACRE_TRY(model.open(file.bytes()));
  NACRE_TRY(Trainer::measure(model, nullptr, kSets, &sizes, {}, places));
  NACRE_TRY(cut(places, device));
  NACRE_TRY(trainer.bind(model, nullptr, kSets, memory, nullptr, places));
  return trainer.start();
}

Status Bound::cut(Places* places, cuda::Device* device) {
  const uint32_t alignment = places == nullptr ? uint32_t(kAlignment) : places->alignment();
  block.emplace(size_t(sizes.total(alignment)));
  NACRE_TRY(Memory::cut(block->bytes(), sizes, &memory, alignment));
  if (places == nullptr || places->bytes(1) == 0) return {};
  return places->give(1, device->allocate(size_t(places->bytes(1))));
}

void Bound::fill_inputs(uint32_t seed) {
  for (uint32_t i = 0; i < program.input_count(); ++i)
    fill_input(program.input(i), model.tensors()[program.view().inputs[i]].element, seed);
}

bool train_step(Bound& bound, uint32_t seed, bool infinite, Trainer::Report* report, float nudge) {
  uint32_t feeding = 0;
  if (!bound.model.find(Entry::kGradients, nullptr, &feeding).ok()) return false;
  for (uint32_t i = 0; i < bound.trainer.input_count(); ++i) {
    const std::span<std::byte> input = bound.trainer.input(i);
    const ElementType type = bound.model.tensors()[bound.model.program(feeding).inputs[i]].element;
    fill_input(input, type, seed % 8 * 16 + i);
    const float infinity = std::numeric_limits<float>::infinity();
    for (size_t e = 0; nudge != 0 && type == ElementType::kFloat32 && e < input.size() / sizeof(float); ++e) {
      float real;
      std::memcpy(&real, input.data() + e * sizeof real, sizeof real);
      real *= ((e * 2654435761u + seed) >> 16 & 1) != 0 ? 1 + nudge : 1 - nudge;
      std::memcpy(input.data() + e * sizeof real, &real, sizeof real);
    }
    if (infinite && type == ElementType::kFloat32) std::memcpy(input.data(), &infinity, sizeof infinity);
  }
  return bound.trainer.step(0.01f, report).ok();
}

// ---- Single steps ----

Code StepOnDevice::place(const Port& port, std::span<std::byte> memory, const KernelEntry& entry,
                         const std::vector<uint32_t>& words, const std::vector<Array>& arrays, size_t inputs) {
  port_ = &port, entry_ = &entry, words_ = words;
  record_.op = entry.op;
  record_.word_count = uint8_t(words.size());
  record_.operand_count = uint8_t(arrays.size());
  record_.rounding = entry.rounding;
  record_.layer = record_.guard = kNoIndex;
  block_.resize(size_t(call_bytes(uint32_t(arrays.size()))) / sizeof(std::max_align_t) + 1);
  Tensor* const operands = write_call(block_.data(), entry, record_, nullptr)->operands();
  records_.resize(arrays.size());
  size_t at = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    operands[i] = {nullptr, nullptr};
    if (!arrays[i].present()) continue;
    records_[i] = record_of(arrays[i]);
    operands[i] = {memory.data() + at, &records_[i]};
    const size_t bytes = arrays[i].bytes.size();
    at += size_t(round_up(bytes + 1, 256));
    if (at > memory.size()) return Code::kMemorySize;
    const Code made =
        i < inputs ? port.copy(port.context, CopyDirection::kToPort, operands[i].data, arrays[i].bytes.data(), bytes)
                   : port.fill(port.context, operands[i].data, std::byte{0xA5}, bytes);
    if (made != Code::kOk) return made;
  }
  const Operands all = {operands, int(arrays.size()), 0};
  const auto scratch = size_t(scratch_bytes(entry, args().words, all));
  if (at + scratch > memory.size()) return Code::kMemorySize;
  scratch_ = memory.subspan(at, scratch);
  prepared_.resize(size_t(prepared_bytes(entry, args().words, all)) / sizeof(std::max_align_t) + 1);
  reinterpret_cast<Call*>(block_.data())->prepared = prepared_.data();
  return prepare_step(entry, args());
}

Code StepOnDevice::run(const std::function<Code()>& copies) const {
  if (const Code begun = port_->begin(port_->context); begun != Code::kOk) return begun;
  Code code = entry_->run(args());
  if (code == Code::kOk && copies) code = copies();
  const Code finished = port_->finish(port_->context);
  return code == Code::kOk ? finished : code;
}

}  // namespace nacre::test

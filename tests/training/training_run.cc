#include "tests/training/training_run.h"

#include <algorithm>
#include <cstring>

#include "tools/error.h"

namespace nacre::tests {
namespace {

using namespace nacre::tools;

constexpr uint32_t kOwn[] = {kCalls, kPrepared};  // of each program; the other blocks are shared

template <class T>
std::vector<double> doubles(std::span<const uint8_t> bytes) {
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
  return {items.begin(), items.end()};
}

std::span<const KernelSet* const> kernels() {
  static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
  return kSets;
}

}  // namespace

TrainingRun::TrainingRun(const std::vector<uint8_t>& model) : model_(model, "training run", "") {
  const Model& m = model_.model();
  const std::pair<Entry, Program*> programs[] = {
      {Entry::kGradients, &gradients_}, {Entry::kUpdate, &update_}, {Entry::kDerive, &derive_}};
  Sizes shared;
  std::vector<std::pair<uint32_t, Program*>> found;
  std::vector<Sizes> sizes;
  for (const auto& [entry, program] : programs) {
    uint32_t index = 0;
    if (!m.find(entry, "host", &index).ok()) continue;
    Sizes one;
    model_.require(Program::measure(m, index, kernels(), &one));
    for (uint32_t b = 0; b < kBlockCount; ++b) shared.bytes[b] = std::max(shared.bytes[b], one.bytes[b]);
    found.emplace_back(index, program);
    sizes.push_back(one);
    derives_ = derives_ || entry == Entry::kDerive;
  }
  blocks_.resize(kBlockCount + 2 * found.size());
  Memory memory;
  for (uint32_t b = 0; b < kBlockCount; ++b) {
    blocks_[b].resize(shared.bytes[b]);
    memory.block[b] = blocks_[b].bytes();
  }
  memory_.assign(found.size(), memory);
  for (uint32_t id = 0; id < m.tensors().size(); ++id) {
    const TensorRecord& r = m.tensors()[id];
    ids_.emplace(model_.tensor_name(id), id);
    if (r.region == Region::kState && r.initial != kNoIndex)
      std::memcpy(memory.block[kState].data() + r.offset, m.weights(r.initial), r.bytes);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t j = 0; j < 2; ++j) {
      AlignedBytes& own = blocks_[kBlockCount + 2 * i + j];
      own.resize(sizes[i].bytes[kOwn[j]]);
      memory_[i].block[kOwn[j]] = own.bytes();
    }
    model_.require(found[i].second->bind(m, found[i].first, kernels(), memory_[i]));
  }
  if (derives_) model_.require(derive_.run());
}

void TrainingRun::write(uint32_t i, const std::vector<float>& numbers) {
  const std::span<std::byte> to = gradients_.input(i);
  if (to.size() == numbers.size() * sizeof(float)) {
    std::memcpy(to.data(), numbers.data(), to.size());
  } else if (to.size() == numbers.size() * sizeof(double)) {
    const std::vector<double> wide(numbers.begin(), numbers.end());
    std::memcpy(to.data(), wide.data(), to.size());
  } else {
    throw Error(kFailed, "input " + std::to_string(i), "has another size");
  }
}

void TrainingRun::write(uint32_t i, const std::vector<int32_t>& labels) {
  const std::span<std::byte> to = gradients_.input(i);
  if (to.size() != labels.size() * sizeof(int32_t)) throw Error(kFailed, "input " + std::to_string(i), "has another size");
  std::memcpy(to.data(), labels.data(), to.size());
}

void TrainingRun::accumulate() { model_.require(gradients_.run()); }

bool TrainingRun::commit(float learning_rate) {
  std::memcpy(update_.input(update_.input_count() - 1).data(), &learning_rate, sizeof learning_rate);
  model_.require(update_.run());
  uint32_t applied = 0;
  std::memcpy(&applied, update_.output(0).data(), sizeof applied);
  std::ranges::fill(memory_[0].block[kStepSums], std::byte{});
  if (derives_) model_.require(derive_.run());
  return applied != 0;
}

const TensorRecord& TrainingRun::record(const std::string& tensor) const {
  const auto id = ids_.find(tensor);
  if (id == ids_.end()) throw Error(kFailed, tensor, "no such tensor");
  return model_.model().tensors()[id->second];
}

std::vector<uint8_t> TrainingRun::bytes(const std::string& tensor) const {
  const TensorRecord& r = record(tensor);
  const uint64_t base = r.alias_of == kNoIndex ? 0 : model_.model().tensors()[r.alias_of].offset;
  const bool state = r.region == Region::kState;
  if (!state && r.region != Region::kStep) throw Error(kFailed, tensor, "lies neither in state nor in the step block");
  const std::span<const std::byte> from = memory_[0].block[state ? kState : kStepSums].subspan(base + r.offset, r.bytes);
  const auto* data = reinterpret_cast<const uint8_t*>(from.data());
  return {data, data + from.size()};
}

std::vector<double> TrainingRun::numbers(const std::string& tensor) const {
  const std::vector<uint8_t> data = bytes(tensor);
  switch (record(tensor).element) {
    case ElementType::kFloat32: return doubles<float>(data);
    case ElementType::kFloat64: return doubles<double>(data);
    case ElementType::kUint32: return doubles<uint32_t>(data);
    default: throw Error(kFailed, tensor, "is no tensor of numbers");
  }
}

double TrainingRun::loss() const { return numbers("loss_sum").at(0) / numbers("sample_count").at(0); }

}  // namespace nacre::tests

#include "tests/differentiate/training_run.h"

#include <cstring>

#include "engine/kernels/training.h"
#include "tools/base/error.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

template <class T>
std::vector<double> doubles(std::span<const uint8_t> bytes) {
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
  return {items.begin(), items.end()};
}

// Keeps tensors of state and step. If two share a name (a tensor, a constant of another program), the first counts.
bool is_kept(const TensorRecord& record) { return record.region == Region::kState || record.region == Region::kStep; }

}  // namespace

TrainingRun::TrainingRun(const std::vector<uint8_t>& model) : model_(model, "training run", "") {
  const KernelSet* const kernels[] = {&reference::training_kernels(), &reference::kernels()};
  Sizes sizes;
  require(Trainer::measure(model_.model(), nullptr, kernels, &sizes));
  block_.resize(sizes.total());
  require(Memory::cut(block_.bytes(), sizes, &memory_));
  require(trainer_.bind(model_.model(), nullptr, kernels, memory_));
  require(trainer_.start());
  for (uint32_t id = 0; id < model_.model().tensors().size(); ++id)
    if (is_kept(model_.model().tensors()[id])) ids_.emplace(model_.tensor_name(id), id);
}

void TrainingRun::write(uint32_t i, const std::vector<float>& numbers) {
  const std::span<std::byte> to = trainer_.input(i);
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
  const std::span<std::byte> to = trainer_.input(i);
  if (to.size() != labels.size() * sizeof(int32_t))
    throw Error(kFailed, "input " + std::to_string(i), "has another size");
  std::memcpy(to.data(), labels.data(), to.size());
}

Trainer::Report TrainingRun::commit(float learning_rate) {
  Trainer::Report report;
  require(trainer_.commit(learning_rate, &report));
  return report;
}

const TensorRecord& TrainingRun::record(const std::string& tensor) const {
  const auto id = ids_.find(tensor);
  if (id == ids_.end()) throw Error(kFailed, tensor, "no such tensor in state or step");
  return model_.model().tensors()[id->second];
}

std::vector<std::string> TrainingRun::tensors(Region region) const {
  std::map<uint32_t, std::string> names;
  for (const auto& [name, id] : ids_)
    if (model_.model().tensors()[id].region == region) names.emplace(id, name);
  std::vector<std::string> ordered;
  for (const auto& [id, name] : names) ordered.push_back(name);
  return ordered;
}

std::vector<uint8_t> TrainingRun::bytes(const std::string& tensor) const {
  const TensorRecord& r = record(tensor);
  const uint64_t base = r.alias_of == kNoIndex ? 0 : model_.model().tensors()[r.alias_of].offset;
  const Block block = r.region == Region::kState ? kState : kStepSums;
  const std::span<const std::byte> from = memory_.block[block].subspan(base + r.offset, r.bytes);
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

}  // namespace nacre::test

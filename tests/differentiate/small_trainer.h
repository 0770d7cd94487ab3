// A training model with its own memory, for tests of the passes that make it: runs steps and returns state by name.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "engine/train/trainer.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {

class SmallTrainer {
 public:
  explicit SmallTrainer(const std::vector<uint8_t>& bytes) : model_(bytes, "test", "") {
    static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
    Sizes sizes;
    model_.require(Trainer::measure(model_.model(), nullptr, kSets, &sizes));
    block_.resize(size_t(sizes.total()) / sizeof(Unit) + 1);
    Memory memory;
    model_.require(Memory::cut(std::as_writable_bytes(std::span(block_)), sizes, &memory));
    model_.require(trainer_.bind(model_.model(), nullptr, kSets, memory));
    model_.require(trainer_.start());
  }

  const tools::LoadedModel& model() const { return model_; }
  Trainer& trainer() { return trainer_; }

  // Runs one training step of one micro-batch.
  Trainer::Report train(const std::vector<float>& x, const std::vector<int32_t>& labels, float rate) {
    std::memcpy(trainer_.input(0).data(), x.data(), x.size() * sizeof(float));
    std::memcpy(trainer_.input(1).data(), labels.data(), labels.size() * sizeof(int32_t));
    model_.require(trainer_.accumulate());
    Trainer::Report report;
    model_.require(trainer_.commit(rate, &report));
    return report;
  }

  std::vector<float> infer(const std::vector<float>& x) {
    const Program& infer = trainer_.infer();
    std::memcpy(infer.input(0).data(), x.data(), x.size() * sizeof(float));
    model_.require(infer.run());
    return numbers<float>(infer.output(0));
  }

  // Returns the numbers of a state value, or {} if there is no such value.
  template <class T>
  std::vector<T> state(const std::string& name) const {
    for (uint32_t id = 0; id < model_.model().tensors().size(); ++id) {
      const TensorRecord& r = model_.model().tensors()[id];
      if (r.region == Region::kState && model_.tensor_name(id) == name)
        return numbers<T>(trainer_.state().subspan(size_t(r.offset), size_t(r.bytes)));
    }
    return {};
  }

 private:
  struct alignas(16) Unit {
    uint64_t words[2];
  };

  template <class T>
  static std::vector<T> numbers(std::span<const std::byte> bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  tools::LoadedModel model_;
  std::vector<Unit> block_;
  Trainer trainer_;
};

}  // namespace nacre::test

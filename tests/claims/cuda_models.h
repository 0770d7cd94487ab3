// Models, steps of training and single steps that the claims about a GPU run on it through the CUDA port.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/places.h"
#include "engine/train/trainer.h"
#include "ports/cuda/cuda_port.h"
#include "tests/one_step.h"
#ifdef NACRE_SIMULATED_DEVICE
#include "tests/fake/fake_cublaslt.h"
#include "tests/fake/fake_driver.h"
#endif

namespace nacre::test {

// The driver and cuBLASLt of this machine, or the simulated ones; null if there is none.
struct GpuDriver {
#ifdef NACRE_SIMULATED_DEVICE
  std::optional<fake::FakeDriver> fake;
  std::optional<fake::FakeCublasLt> fake_library;
#endif
  const cuda::Driver* driver = nullptr;
  const cuda::CublasLt* library = nullptr;
  std::span<const void* const> modules;

  explicit GpuDriver(bool simulated);
};

struct Gpu : GpuDriver {
  cuda::Device device;
  bool open;

  // `products` says whether to use cuBLASLt.
  Gpu(bool simulated, bool products)
      : GpuDriver(simulated), open(device.open(driver, modules, 0, products ? library : nullptr)) {}
  ~Gpu() { device.close(); }
};

// A block of zeros, aligned to 4,096 bytes.
struct Block {
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data;
  size_t size = 0;

  explicit Block(size_t bytes = 0);
  std::span<std::byte> bytes() const { return {data.get(), size}; }
};

bool read_model(const char* path, Block* block);

// Fills an input with numbers from a seed: float32 between -1 and 1, integers of 4 bytes from 0 to 2, others any bits.
void fill_input(std::span<std::byte> input, ElementType type, uint32_t seed);

// A program or a trainer with memory of its own, bound to the host or to places.
struct Bound {
  Model model;
  Sizes sizes;
  std::optional<Block> block;
  Memory memory;
  Program program;
  Trainer trainer;

  Status infer(const Block& file, uint32_t index, Places* places, cuda::Device* device);
  Status train(const Block& file, Places* places, cuda::Device* device);
  void fill_inputs(uint32_t seed);  // inputs of the program

 private:
  Status cut(Places* places, cuda::Device* device);
};

// Accumulates numbers from a seed, with an infinity among them if `infinite`, and commits. `nudge` moves each real
// number by that share of itself.
bool train_step(Bound& bound, uint32_t seed, bool infinite, Trainer::Report* report, float nudge = 0);

// One step, made by hand, whose operands lie in the device's memory. Inputs are copied there, and the bytes after
// them are poisoned.
class StepOnDevice {
 public:
  Code place(const Port& port, std::span<std::byte> memory, const KernelEntry& entry,
             const std::vector<uint32_t>& words, const std::vector<Array>& operands, size_t inputs);
  // Runs the step in one segment, followed by `copies`.
  Code run(const std::function<Code()>& copies = {}) const;
  const Tensor& operand(size_t i) const { return call().operands()[i]; }

 private:
  const Call& call() const { return *reinterpret_cast<const Call*>(block_.data()); }
  Args args() const { return {call(), {words_.data(), int(words_.size())}, 0, scratch_, nullptr, port_->context}; }

  const Port* port_ = nullptr;
  const KernelEntry* entry_ = nullptr;
  std::vector<uint32_t> words_;
  StepRecord record_ = {};
  std::vector<TensorRecord> records_;
  std::vector<std::max_align_t> block_, prepared_;
  std::span<std::byte> scratch_;
};

}  // namespace nacre::test

// LoadedModel: a model file in memory, opened, with the names that people read. BoundProgram: one of its programs
// with memory, bound to kernels.
//
// A refusal of the engine becomes one Error: file, place (step 7 (fc1)), fact, both numbers, remedy.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/model.h"
#include "engine/run/places.h"
#include "engine/run/program.h"
#include "ports/threads/threads.h"
#include "tools/base/error.h"
#include "tools/model/gpu.h"

namespace nacre::tools {

class InputFile;

// Error for a refusal of the engine. It holds the engine's Status.
struct Refused : Error {
  Refused(ExitCode exit_code, const std::string& place, const std::string& fact, const std::string& remedy,
          const Status& refusal)
      : Error(exit_code, place, fact, remedy), status(refusal) {}
  Status status;
};

// Bytes at a multiple of 64, the alignment of model files and of programs' memory. They begin as zeros. Untouched
// pages take no memory.
class AlignedBytes {
 public:
  void resize(size_t bytes);  // keeps the bytes that fit
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  std::unique_ptr<void, Free> block_;
  std::byte* data_ = nullptr;  // within block_, at a multiple of 64
  size_t size_ = 0, capacity_ = 0;
};

// Calls resize(). If the system refuses, throws an Error: "`place`: needs 1,234 bytes of memory to run, ...".
void resize_for(AlignedBytes& memory, uint64_t bytes, const std::string& place, const char* purpose);

struct ProgramNames {
  std::string target;
  std::vector<std::string> banks, inputs, outputs, input_layouts, output_layouts;  // one text per bank, input, output
  uint64_t liveness_bound = 0;
};

struct LayerName {
  std::string name, source_op;
  Policy policy = {};
};

// Decodes codes: real = scale * (code - zero). There is one of each, or one per index of `axis`.
struct Scales {
  std::vector<float> scale;
  std::vector<int32_t> zero;
  int axis = 0;
};

struct GoldenView {  // a stored pair of inputs and outputs
  uint32_t program;
  std::span<const uint8_t> inputs, outputs;
  float tolerance;
};

class LoadedModel {
 public:
  explicit LoadedModel(const std::string& path);
  // Copies bytes that are in memory already. `remedy` stands in refusals, except those that a network's data can cause.
  LoadedModel(std::span<const uint8_t> bytes, const std::string& name, const std::string& remedy);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const std::string& path() const { return path_; }
  const Model& model() const { return model_; }

  void require(const Status& status) const;       // throws the Error for a refusal of the engine
  std::string place(const Status& status) const;  // "step 7 (fc1)"

  // Returns the program for `target`, or if that is "", for target_for_here (kernel_choice.h). If there is none,
  // throws an Error that lists the targets.
  uint32_t find_program(Entry entry, const std::string& target = "") const;
  uint32_t infer_program(const std::string& target = "") const { return find_program(Entry::kInfer, target); }

  std::string tensor_name(uint32_t tensor) const;  // "tensor12" if names were stripped
  uint32_t layer_count() const;
  LayerName layer(uint32_t index) const;
  std::string step_name(uint32_t step) const;  // the layer's name, "" if it has none
  ProgramNames program_names(uint32_t program) const;
  std::optional<Scales> scales(uint32_t tensor) const;
  uint64_t weight_bytes() const;
  std::vector<std::pair<std::string, std::string>> metadata() const;
  std::vector<GoldenView> golden() const;

 private:
  std::vector<std::string> targets_of(Entry entry) const;
  void read_rest(const InputFile& file);
  void open();

  std::string path_, remedy_;  // remedy_: what errors advise; "": advice by the refusal's code
  AlignedBytes file_;
  Model model_;
};

// Returns the ports (sets of kernels; the index is a step's place) of a choice of kernels (kernel_choice.h). "auto"
// gives the fastest tier, and XNNPACK if it is built in, runs here and a step names its place. A program for a GPU gets
// the GPU, if the choice allows it. Any other choice gives one port, which all steps ask.
using Ports = std::vector<const Port*>;
Ports ports_for(const LoadedModel& model, uint32_t program, const std::string& choice);
bool names_place(const Model& model, const ProgramView& view, uint8_t place);

inline constexpr uint32_t kMostThreads = 256;                    // the most that an option may ask for
std::shared_ptr<const ThreadPool> make_threads(uint32_t count);  // null for one thread

// A program with memory of its own. The model must outlive it. Kernels of `port` or `ports` come before the
// reference's; null: the kernels of the program's target, if that is a tier (kernel_choice.h), else the reference's
// alone. If `threads` is above 1, kernels share their work among that many threads.
class BoundProgram {
 public:
  BoundProgram(const LoadedModel& model, uint32_t index, const Port* port = nullptr, uint32_t threads = 1)
      : BoundProgram(model, index, Ports{port}, make_threads(threads)) {}
  BoundProgram(const LoadedModel& model, uint32_t index, Ports ports, std::shared_ptr<const ThreadPool> threads);
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const Program& program() const { return program_; }
  const Sizes& sizes() const { return sizes_; }
  const LoadedModel& loaded() const { return model_; }
  int threads() const { return threads_ == nullptr ? 1 : threads_->count(); }
  const Ports& ports() const { return ports_; }  // by place; if the first is null, the reference's kernels alone

  // Runs the program. Takes the bytes of all inputs one after the other, and returns those of all outputs, as in a
  // golden pair.
  std::vector<uint8_t> run(std::span<const uint8_t> inputs);

 private:
  const LoadedModel& model_;
  std::shared_ptr<const ThreadPool> threads_;
  AlignedBytes memory_;
  Ports ports_;
  Places places_;
  std::optional<GpuMemory> gpu_memory_;
  Sizes sizes_;
  Program program_;
};

// Returns the sizes of a program's memory blocks on `machine`. Throws if the engine's measure refuses the program.
Sizes measure(const LoadedModel& model, uint32_t program, const Machine& machine = {});

// Returns a block's name: "arena bank 1 (sram)".
std::string block_name(uint32_t block, const ProgramNames& names);

}  // namespace nacre::tools

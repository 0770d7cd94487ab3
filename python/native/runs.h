// Runs: how Python runs a program, once or over many rows. Python's lock is free meanwhile, and signals are handled.
//
// A program whose runs are long runs step by step, so that Ctrl-C ends it between two steps. A program on a GPU does
// not: its steps there are one graph.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "python/native/signals.h"
#include "tools/model/loaded_model.h"

namespace nacre::python {

// Bytes of whole arrays, one array for each input or output of a program. The arrays stay alive with it.
template <class Byte>
class ArrayBytes {
 public:
  explicit ArrayBytes(const nanobind::list& arrays) {
    for (const nanobind::handle array : arrays) arrays_.push_back(nanobind::cast<Bytes>(array));
  }
  size_t count() const { return arrays_.size(); }
  size_t size(size_t i) const { return arrays_[i].size(); }

  // Returns the part that belongs to run number `run`, where each run has `bytes`. The last part may be shorter.
  std::span<Byte> part(size_t i, uint64_t run, size_t bytes) const {
    const size_t first = std::min<uint64_t>(run * bytes, arrays_[i].size());
    return {arrays_[i].data() + first, std::min(bytes, arrays_[i].size() - first)};
  }

 private:
  using Bytes = nanobind::ndarray<Byte, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
  std::vector<Bytes> arrays_;
};
using InputBytes = ArrayBytes<const uint8_t>;
using OutputBytes = ArrayBytes<uint8_t>;

// Copies the part of each input that a run reads into the program's memory.
void write_inputs(const Program& program, const InputBytes& inputs, uint64_t run = 0);

// The types of run_all in Python.
inline constexpr char kRunAllSignature[] =
    "def run_all(self, inputs: list[numpy.typing.NDArray[numpy.uint8]], outputs: "
    "list[numpy.typing.NDArray[numpy.uint8]], "
    "runs: int, last_rows: int) -> None";

class Runs {
 public:
  // Runs once with `rows` rows, or with the compiled batch for 0. Throws what a signal's handler raises.
  void run(const tools::LoadedModel& model, const Program& program, uint32_t rows);

  // Runs `runs` times, the last time with `last_rows` rows. Each run reads and writes its part of the arrays.
  void run_all(const tools::LoadedModel& model, const Program& program, const nanobind::list& inputs,
               const nanobind::list& outputs, uint64_t runs, uint32_t last_rows);

 private:
  void run(const tools::LoadedModel& model, const Program& program, uint32_t rows, Signals& signals);

  bool whole_ = false;  // runs are so short that signals can wait for their end, or cannot be cut
};

}  // namespace nacre::python

// How a command runs a program on this machine: which kernels, over which packed weights, on how many threads. Every
// command that runs a model for its results or its times asks bind_to_run, and so does Python: what one of them shows
// is what `nacre run` gives. Calibration, golden pairs and what is written into files take the reference kernels, so
// that their bytes are the same on every machine.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct Running {
  std::string kernels = "auto";  // kernel_choice.h
  uint32_t threads = 1;
};

// The kernels' weights are packed where the program is bound.
BoundProgram bind_to_run(const LoadedModel& model, uint32_t program, const Running& running = {});

// Kernels and threads that a program was bound to, for readers of its numbers.
struct RanBy {
  std::string kernels = "";  // "avx512_vnni", "avx2+xnnpack"
  int threads = 1;

  std::string text() const;  // "avx2", "avx2 on 2 threads"
  void add_to(Json& json) const { json.update({{"kernels", kernels}, {"threads", threads}}); }
  bool operator==(const RanBy&) const = default;
};
RanBy ran_by(const BoundProgram& bound);

}  // namespace nacre::tools

// Running: how a command runs a program on this machine: with which kernels, and on how many threads. Python's Program
// and the commands run, bench, compare, eval, search and report call bind_to_run, so all show the results of `nacre
// run`. Calibration and golden pairs do not: they use the kernels of the program's target or the reference's, not the
// fastest of this machine.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct Running {
  std::string kernels = "auto";  // kernel_choice.h
  uint32_t threads = 1;
};

// Binds the program and packs its weights for the kernels.
BoundProgram bind_to_run(const LoadedModel& model, uint32_t program, const Running& running = {});

// The kernels and threads that a program was bound to, for reports.
struct RanBy {
  std::string kernels = "";  // "avx512_vnni", "avx2+xnnpack"
  int threads = 1;

  std::string text() const;  // "avx2", "avx2 on 2 threads"
  void add_to(Json& json) const { json.update({{"kernels", kernels}, {"threads", threads}}); }
  bool operator==(const RanBy&) const = default;
};
RanBy ran_by(const BoundProgram& bound);

}  // namespace nacre::tools

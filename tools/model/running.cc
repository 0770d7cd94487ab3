#include "tools/model/running.h"

#include <fmt/format.h>

#include "tools/model/kernel_choice.h"

namespace nacre::tools {

BoundProgram bind_to_run(const LoadedModel& model, uint32_t program, const Running& running) {
  return BoundProgram(model, program, ports_for(model, program, running.kernels), make_threads(running.threads));
}

std::string RanBy::text() const { return threads == 1 ? kernels : fmt::format("{} on {} threads", kernels, threads); }

RanBy ran_by(const BoundProgram& bound) {
  return {.kernels = name_of_ports(bound.ports()), .threads = bound.threads()};
}

}  // namespace nacre::tools

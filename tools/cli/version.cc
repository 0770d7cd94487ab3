#include "tools/cli/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/model/model.h"
#include "engine/nacre_c.h"
#include "ports/cuda/cuda_port.h"
#include "tools/base/version.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

#ifdef NACRE_MPI
constexpr bool kMpi = true;
#else
constexpr bool kMpi = false;
#endif

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string sets_text() {
  std::vector<std::string> here, others;
  for (const std::string& set : kernel_sets_listed())
    if (!is_emulated(target_of_set(set)))
      (kernels_of_set(set).empty() || !set_runs_here(set) ? others : here).push_back(set);
  std::string text = fmt::format("{} (auto: {})", fmt::join(here, ", "), best_set());
  if (!others.empty()) text += fmt::format("; not here: {}", fmt::join(others, ", "));
  return text;
}

}  // namespace

std::string version_text() {
  const bool cuda = !cuda::modules().empty(), xnnpack = xnnpack_port() != nullptr;
  return fmt::format(
      "nacre {}\n"
      "build    {}, C++{}\n"
      "formats  model file {}, C API {}\n"
      "kernels  {}\n"
      "ports    threads, files, xnnpack {}, cuda {}, mpi {}\n",
      kVersion, compiler(), __cplusplus / 100 % 100, kFileVersion, NACRE_C_VERSION, sets_text(),
      xnnpack ? "yes" : "no (-Dxnnpack=enabled)", cuda ? "yes" : "without its kernels (-Dcuda=enabled)",
      kMpi ? "yes" : "no (-Dmpi=enabled)");
}

}  // namespace nacre::tools

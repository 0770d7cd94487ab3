// Finds the kernels that run a program on this machine, by name: "reference", or a tier, which is a set of kernels for
// one instruction set ("avx2", "neon": ports/vector/tiers.h). "auto" is the fastest tier here. Builds with XNNPACK also
// have "xnnpack" (ports/xnnpack/xnnpack_port.h). The reference kernels run the steps that the others do not take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

// Returns "auto", "reference", every tier (even if it does not run here), "xnnpack" if built in, and "tf32" (gpu.h).
std::vector<std::string> kernel_choices();

// Returns the kernel sets' names: "reference", "training" (its kernels for training), the tiers, "xnnpack" if built in.
std::vector<std::string> kernel_sets_listed();
struct ListedKernel {
  std::string name;  // "dense_f32"
  const KernelEntry* entry;
};
std::vector<ListedKernel> kernels_of_set(const std::string& set);
bool set_runs_here(const std::string& set);
// A tier of this machine's port that is compiled, or whose instructions the processor has.
struct TierHere {
  std::string name;
  bool compiled, processor_has;
  bool by_name;  // "auto" never picks it
};
std::vector<TierHere> tiers_here();         // lowest first
std::vector<std::string> emulated_tiers();  // tiers of microcontrollers, which run here in plain C++
std::string best_set();                     // the set that "auto" picks

// Returns the port of a choice, or null for the reference kernels alone. Throws Error if it is not known or not here.
const Port* port_named(const std::string& choice);

// The place of steps that ask XNNPACK before our own kernels, in programs for this machine (engine/run/places.h;
// nacre convert --tune). xnnpack_port() returns null if XNNPACK is not built in or does not run here.
inline constexpr uint8_t kXnnpackPlace = 1;
const Port* xnnpack_port();

// Returns the kernels that a program for this target is compiled with, in the order in which bind asks: for
// "x86/avx2" or "arm/neon" those of its tier, then the reference's. They may not run on this machine.
std::vector<const KernelSet*> kernels_of_target(const std::string& target);

// Returns the port for a program compiled for `target`. If the target names a tier, only "auto" and the tier's own name
// are allowed, and mean that tier. Else port_named() decides.
const Port* port_for(const std::string& choice, const std::string& target);
const Port* port_for_target(const std::string& target);  // null if it names no tier
// whether its kernels are another machine's, run here in plain C++
bool is_emulated(const std::string& target);
bool target_runs_here(const std::string& target);  // false if it names a tier or a GPU that is not here
// Picks a file's target if the user names none: the host; else the first that runs here, of several GPUs the newest;
// else the first. Returns null if there are no targets.
const std::string* target_for_here(std::span<const std::string> targets);

// Returns "avx512_vnni/dense_f32" for a kernel of the reference, of a tier, of XNNPACK or of CUDA, else "". Tiers may
// share a kernel: then it gets the name of `set` if that set has it, else of the first set that has it.
std::string name_of_kernel(Kernel kernel, const std::string& set = "");
std::string name_of_entry(const KernelEntry& entry, const std::string& set);  // also for tiers of other machines

std::string target_of_set(const std::string& set);     // "x86/avx2" for "avx2"; "" if it is no tier
std::string set_of_target(const std::string& target);  // the reverse; a target that names no tier is returned as it is

// Returns the name of a port: "avx512_vnni", or "reference" for null. The names of several ports are joined:
// "avx512_vnni+xnnpack".
std::string name_of_port(const Port* port);
std::string name_of_ports(std::span<const Port* const> ports);

}  // namespace nacre::tools

// Finds the kernels that run a program on this machine, by name: "reference", or a tier of its processor ("avx2",
// "neon": ports/vector/tiers.h). "auto" is the fastest tier that runs here. Builds with XNNPACK also have "xnnpack"
// (ports/xnnpack/xnnpack_port.h). The reference kernels run the steps that the tier or XNNPACK does not take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

// Returns "auto", "reference", every tier (also those that do not run here), "xnnpack", and "tf32" for a GPU (gpu.h).
std::vector<std::string> kernel_choices();

// The names of all kernel sets: "reference", "training" (the reference's kernels for training) and the tiers.
std::vector<std::string> kernel_sets_listed();
struct ListedKernel {
  std::string name;  // "dense_f32"
  const KernelEntry* entry;
};
std::vector<ListedKernel> kernels_of_set(const std::string& set);
bool set_runs_here(const std::string& set);
std::string best_set();  // the set that "auto" picks

// Returns the port of a choice, or null for the reference kernels alone. Throws if this machine cannot run it.
const Port* port_named(const std::string& choice);

// The place of steps that ask XNNPACK before our own kernels, in programs for this machine (engine/run/places.h;
// nacre convert --tune). xnnpack_port() returns null if XNNPACK is not built in or does not run here.
inline constexpr uint8_t kXnnpackPlace = 1;
const Port* xnnpack_port();

// Returns the kernels that a program for this target is compiled with, in the order in which bind asks: for
// "x86/avx2" or "arm/neon" those of its tier, then the reference's. They may not run on this machine.
std::vector<const KernelSet*> kernels_of_target(const std::string& target);

// Returns the port for a program compiled for `target`. If that names a tier, "auto" is the tier, and no other choice
// is allowed.
const Port* port_for(const std::string& choice, const std::string& target);
const Port* port_for_target(const std::string& target);  // null if it names no tier
// whether its kernels are another machine's, run here in plain C++
bool is_emulated(const std::string& target);
bool target_runs_here(const std::string& target);  // if it names a tier or a GPU: whether that is here
// Picks a file's target if the user names none: the host; else the first that runs here, of several GPUs the newest;
// else the first. Returns null if there are no targets.
const std::string* target_for_here(std::span<const std::string> targets);

// Returns "avx512_vnni/dense_f32" for a kernel of the reference, of a tier or of XNNPACK, else "". A tier may have
// kernels of the tier below; with `set` they get the name of that set.
std::string name_of_kernel(Kernel kernel, const std::string& set = "");
std::string name_of_entry(const KernelEntry& entry, const std::string& set);  // also for tiers of other machines

std::string target_of_set(const std::string& set);     // "x86/avx2" for "avx2"; "" if it is no tier
std::string set_of_target(const std::string& target);  // the reverse; a target that names no tier is returned as it is

// Returns the name of a port: "avx512_vnni", or "reference" for null. The names of several ports are joined:
// "avx512_vnni+xnnpack".
std::string name_of_port(const Port* port);
std::string name_of_ports(std::span<const Port* const> ports);

}  // namespace nacre::tools

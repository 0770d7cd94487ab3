// Names the kernels that run a program on this machine: "reference", or a tier of its processor ("avx2", "neon":
// ports/vector/tiers.h). "auto" is the fastest tier that runs here. Builds with XNNPACK also have "xnnpack"
// (ports/xnnpack/xnnpack_port.h). The reference kernels run the steps that the tier or XNNPACK does not take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

// "auto", "reference", every tier, also those that do not run here, and "xnnpack"; last "tf32", of a GPU (gpu.h).
std::vector<std::string> kernel_choices();

// Every set there is, and its kernels: "reference", "training" (the reference's, for training) and the tiers.
std::vector<std::string> kernel_sets_listed();
struct ListedKernel {
  std::string name;  // "dense_f32"
  const KernelEntry* entry;
};
std::vector<ListedKernel> kernels_of_set(const std::string& set);
bool set_runs_here(const std::string& set);
std::string best_set();  // that auto picks

// The port of a choice; null: the reference kernels alone. Throws where this machine cannot run it.
const Port* port_named(const std::string& choice);

// The place of the steps that XNNPACK is asked for before our own kernels, in programs for this machine
// (engine/run/places.h; nacre convert --tune). Null: it is not built in, or does not run here.
inline constexpr uint8_t kXnnpackPlace = 1;
const Port* xnnpack_port();

// Kernels that a program for a target of this name is compiled with, in the order in which bind asks: those of its
// tier for "x86/avx2" or "arm/neon", then the reference's. Whether this machine can run them is another question.
std::vector<const KernelSet*> kernels_of_target(const std::string& target);

// The choice for a program compiled for `target`: where that names a tier, "auto" is that tier, and no other fits.
const Port* port_for(const std::string& choice, const std::string& target);
const Port* port_for_target(const std::string& target);  // null where it names no tier
bool is_emulated(const std::string& target);             // its kernels are another machine's, here in plain C++
bool target_runs_here(const std::string& target);        // where it names a tier or a GPU: whether they are here
// Picks one of a file's targets, where none is asked for: the host, else the first that runs here (of GPUs the
// newest), else the first. Null: there are none.
const std::string* target_for_here(std::span<const std::string> targets);

// "avx512_vnni/dense_f32", of a kernel of the reference, of a tier or of XNNPACK; "" of another. A tier may have
// kernels of the one below it: of `set` they have its name.
std::string name_of_kernel(Kernel kernel, const std::string& set = "");
std::string name_of_entry(const KernelEntry& entry, const std::string& set);  // of tiers of other machines too

std::string target_of_set(const std::string& set);     // "x86/avx2" of "avx2"; "" where it is no tier
std::string set_of_target(const std::string& target);  // and back; a target that names no tier as it is

// Returns the name of a port: "avx512_vnni", or "reference" for null. The names of several ports are joined:
// "avx512_vnni+xnnpack".
std::string name_of_port(const Port* port);
std::string name_of_ports(std::span<const Port* const> ports);

}  // namespace nacre::tools

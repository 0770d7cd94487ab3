// The facts that `nacre doctor` tells about this machine and this build: each is of one thing, with a remedy if it is
// missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::cuda {
struct Driver;
}

namespace nacre::tools {

enum class Presence : uint8_t {
  kThere,
  kLimited,      // there, but a limit of the process is below what the machine has
  kMissing,      // a package, a device or a setting of this machine
  kNotCompiled,  // an option of the build
  kNotHere,      // this processor lacks its instructions
  kBroken        // the tool itself needs it, and it does not work
};

struct Fact {
  std::string name;  // "tier avx2"
  Presence presence = Presence::kThere;
  std::string is = "";      // "compiled, runs here"
  std::string remedy = "";  // "" if nothing is to be done
};
using Facts = std::vector<Fact>;

Facts processor_facts();  // its instructions, cores and threads
Facts memory_facts();     // memory, limits of the process, the place of temporary files
Facts kernel_facts();     // the tiers, and whether their kernels compute right
Facts library_facts();    // the libraries of this build
Facts gpu_facts(const cuda::Driver* driver, bool cublaslt, bool nccl);  // null: there is no driver
Facts firmware_facts();                                                 // compilers for microcontrollers, and emulators
Facts terminal_facts();

// Returns "apt-get install A B": the packages of a group of tools/packages.sh whose names hold `part`.
std::string install(const std::string& group, const std::string& part = "");

// Returns a program of the folders that PATH names, or "".
std::string program_named(const std::string& name);

// Returns the number after "name:" in a text such as /proc/meminfo or /proc/cpuinfo, or the words there; "" if none.
std::string field_of(const std::string& text, const std::string& name);

}  // namespace nacre::tools

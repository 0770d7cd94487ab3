// Facts of libraries: those that the tool is linked with, those that a build may leave out, NVIDIA's, and compilers.
#include <H5public.h>
#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <openssl/opensslv.h>
#include <sndfile.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tools/commands/doctor/facts.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

#ifdef NACRE_MPI
constexpr bool kMpi = true;
#else
constexpr bool kMpi = false;
#endif

struct PackageGroup {
  const char *name, *packages;
};
constexpr PackageGroup kPackages[] = {
#include "tools/commands/debian_packages.inc"
};

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string sndfile_version() {
  const std::string version = sf_version_string();  // "libsndfile-1.2.0"
  return version.substr(version.find('-') + 1);
}

Fact program_fact(const char* name, const char* use, const char* group, const char* package) {
  const std::string path = program_named(name);
  if (!path.empty()) return {.name = name, .is = fmt::format("{}: {}", path, use)};
  return {.name = name, .presence = Presence::kMissing, .is = use, .remedy = install(group, package)};
}

Fact option_fact(const char* name, bool compiled, const char* use, const char* option, const char* group) {
  if (compiled) return {.name = name, .is = use};
  return {.name = name,
          .presence = Presence::kNotCompiled,
          .is = use,
          .remedy = fmt::format("{}, and build with {}", install(group), option)};
}

}  // namespace

std::string install(const std::string& group, const std::string& part) {
  std::string command = "apt-get install";
  for (const PackageGroup& each : kPackages) {
    if (each.name != group) continue;
    std::istringstream packages(each.packages);
    for (std::string package; packages >> package;)
      if (package.find(part) != std::string::npos) command += " " + package;
  }
  return command;
}

std::string program_named(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return "";
}

Facts library_facts() {
  Facts facts = {
      {.name = "protobuf",
       .is = fmt::format("{}: .onnx files", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION))},
      {.name = "HDF5", .is = hdf5_version() + ": .h5 and .keras files"},
      {.name = "libzip", .is = fmt::format("{}: .keras and .npz files", zip_libzip_version())},
      {.name = "zlib", .is = fmt::format("{}: compressed files", zlibVersion())},
      // The version of the headers: OpenSSL_version() would link 3 MB more into a wheel.
      {.name = "OpenSSL", .is = OPENSSL_VERSION_STR ": hashes of networks"},
      {.name = "libsndfile", .is = sndfile_version() + ": sounds"},
      {.name = "libpng, libturbojpeg", .is = "pictures"}};
  facts.push_back(option_fact("XNNPACK", std::ranges::count(kernel_choices(), "xnnpack") > 0,
                              "--kernels xnnpack, and convert --tune", "-Dxnnpack=enabled", "xnnpack"));
  if (Fact& fact = facts.back(); fact.presence == Presence::kThere && xnnpack_port() == nullptr) {
    fact.presence = Presence::kNotHere;
    fact.is = "compiled, but the library does not run on this processor";
  }
  facts.push_back(option_fact("MPI", kMpi, "tune --mpi, training on several machines", "-Dmpi=enabled", "mpi"));
  if (kMpi) facts.push_back(program_fact("mpirun", "starts tune --mpi", "mpi", "bin"));
  return facts;
}

Facts firmware_facts() {
  return {program_fact("arm-none-eabi-g++", "firmware for Cortex-M", "firmware", "arm-none-eabi"),
          program_fact("qemu-system-arm", "runs it here", "firmware", "qemu-system-arm"),
          program_fact("riscv64-unknown-elf-g++", "firmware for RISC-V", "firmware", "riscv64"),
          program_fact("qemu-system-riscv32", "runs it here", "firmware", "qemu-system-misc"),
          program_fact("aarch64-linux-gnu-g++", "programs for 64-bit ARM Linux", "arm", "aarch64"),
          program_fact("arm-linux-gnueabihf-g++", "programs for 32-bit ARM Linux", "arm", "gnueabihf"),
          program_fact("qemu-aarch64", "runs them here", "arm", "qemu-user")};
}

}  // namespace nacre::tools

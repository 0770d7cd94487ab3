// Runs a model file with the engine and one tier of fast kernels, for machines without the libraries of the tools:
// tests/arm.sh.
//
//   port_run                                  prints the name of the fastest tier that runs here
//   port_run TIER MODEL [INPUT OUTPUT]...     files: bytes for input 0, and of output 0; TIER may be reference
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine/nacre.h"
#include "engine/run/places.h"
#include "engine/train/object_sizes.h"  // asserts what `nacre size --target arm/...` says of this machine
#include "ports/vector/tiers.h"

namespace nacre::test {
namespace {

alignas(64) std::byte g_file[4 << 20], g_memory[16 << 20];

// Reads at most as many bytes as `to` holds. Returns null if there is no such file.
std::byte* read(const char* path, std::span<std::byte> to, size_t* bytes) {
  std::FILE* const file = std::fopen(path, "rb");
  if (file == nullptr) return nullptr;
  *bytes = std::fread(to.data(), 1, to.size(), file);
  std::fclose(file);
  return to.data();
}
bool write(const char* path, std::span<const std::byte> bytes) {
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && whole;
}

int run(const char* name, const char* path, int count, char** files) {
  const Port* port = nullptr;
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && std::strcmp(tier.name, name) == 0) port = tier.port;
  });
  if (port == nullptr && std::strcmp(name, "reference") != 0) return std::printf("%s does not run here\n", name), 1;
  const Port* const ports[] = {port};
  const KernelSet* const behind[] = {&reference::kernels()};
  Places places(ports);
  Model model;
  Program program;
  Sizes sizes;
  Memory memory;
  size_t bytes = 0;
  if (read(path, g_file, &bytes) == nullptr) return std::printf("no %s\n", path), 1;
  const auto bind = [&]() -> Status {
    NACRE_TRY(model.open({g_file, bytes}));
    NACRE_TRY(places.measure(model, 0, behind, &sizes));
    NACRE_TRY(Memory::cut(g_memory, sizes, &memory, places.alignment()));
    return places.bind(&program, model, 0, behind, memory);
  };
  if (const Status status = bind(); !status.ok()) return std::printf("%s: code %d\n", path, int(status.code)), 1;
  for (int i = 0; i + 1 < count; i += 2) {
    const std::span<std::byte> input = program.input(0);
    if (read(files[i], input, &bytes) == nullptr || bytes != input.size())
      return std::printf("%s: %zu bytes wanted\n", files[i], input.size()), 1;
    if (const Status status = program.run(); !status.ok()) return std::printf("code %d\n", int(status.code)), 1;
    if (!write(files[i + 1], program.output(0))) return std::printf("cannot write %s\n", files[i + 1]), 1;
  }
  return 0;
}

int best() {
  const char* best = "";
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && !tier.by_name) best = tier.name;
  });
  return std::printf("%s\n", best), 0;
}

}  // namespace
}  // namespace nacre::test

int main(int count, char** arguments) {
  if (count < 3) return nacre::test::best();
  return nacre::test::run(arguments[1], arguments[2], count - 3, arguments + 3);
}

// Claim: the engine never allocates, and cannot. The library names no allocator, and inference runs with an allocator
// that ends the process.
//
//   symbols    every undefined symbol of libnacre.a (NACRE_LIBRARY) is in kAllowed; the library has no data to
//              initialise or change
//   armed      malloc, its relatives and operator new end the process from before open() until after inference
//   deliberate malloc, operator new and calloc end a child process that calls one of them while armed: the trap works
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "engine/nacre_c.h"
#include "tests/claims/killing_allocator.h"
#include "tests/model/execute.h"
#include "tests/model/networks.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

// ---- The library's symbols ----

constexpr const char* kAllowed[] = {"memcpy",
                                    "memset",
                                    "memmove",
                                    "memcmp",
                                    "strlen",  // every C compiler may call it
                                    "strcmp",  // ops/all.cc compares an op's name
                                    "expf",
                                    "exp",
                                    "tanhf",
                                    "tanh",
                                    "sqrtf",
                                    "sqrt",
                                    "erfc",
                                    "erfcf",
                                    "frexp",
                                    "frexpf",
                                    "ldexp",
                                    "ldexpf",
                                    "log",
                                    "logf",
                                    "log1p",
                                    "log1pf",
                                    "cos",
                                    "cosf",
                                    "erf",
                                    "erff",
                                    "expm1",
                                    "expm1f",
                                    "nearbyint",
                                    "nearbyintf",
                                    "pow",
                                    "powf",
                                    "sin",
                                    "sinf",                    // float ops call these
                                    "_GLOBAL_OFFSET_TABLE_"};  // position-independent code needs it

// Calls a function for each line of a command's output.
template <class F>
bool each_line(const std::string& command, F f) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) f(std::string(line, std::strcspn(line, "\n")));
  return pclose(pipe) == 0;
}

bool symbols(const std::string& library) {
  std::set<std::string> defined, undefined;
  const bool read = each_line("nm -P '" + library + "' 2>/dev/null", [&](const std::string& line) {
    char name[4096], type = 0;
    if (std::sscanf(line.c_str(), "%4095s %c", name, &type) != 2) return;
    if (type == 'U' || type == 'w' || type == 'v') undefined.insert(name);
    else defined.insert(name);
  });
  bool good = read && !defined.empty();
  std::printf("undefined in libnacre.a:");
  for (const std::string& name : undefined) {
    if (defined.count(name) != 0) continue;
    bool allowed = false;
    for (const char* a : kAllowed) allowed = allowed || name == a;
    std::printf(" %s%s", name.c_str(), allowed ? "" : " (NOT ALLOWED)");
    good = good && allowed;
  }
  std::printf("\n");

  uint64_t changeable = 0, constants = 0;
  const bool sized = each_line("size -A '" + library + "' 2>/dev/null", [&](const std::string& line) {
    char name[4096];
    unsigned long long bytes = 0;
    if (std::sscanf(line.c_str(), "%4095s %llu", name, &bytes) != 2 || bytes == 0) return;
    const std::string section = name;
    const auto starts = [&](const char* prefix) { return section.rfind(prefix, 0) == 0; };
    if (starts(".data.rel.ro")) constants += bytes;  // constant once the loader has placed it
    else if (starts(".data") || starts(".bss") || starts(".tdata") || starts(".tbss") || starts(".init_array") ||
             starts(".ctors") || starts(".fini_array"))
      changeable += bytes, std::printf("%s has %llu bytes\n", name, bytes);
  });
  std::printf(".data, .bss, .init_array: %llu bytes (.data.rel.ro: %llu)\n",
              static_cast<unsigned long long>(changeable), static_cast<unsigned long long>(constants));
  return good && sized && changeable == 0;
}

// ---- Inference, armed ----

alignas(64) std::byte memory[4 << 20];
constinit uint64_t sum = 0;  // sum of outputs, so that nothing is optimised away

// Does everything from open to reading outputs, for every program, without an allocation of its own.
bool infer(std::span<const std::byte> file) {
  Model model;
  if (!model.open(file).ok() || !model.check_weights().ok()) return false;
  for (uint32_t i = 0; i < model.program_count(); ++i) {
    static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
    Sizes sizes;
    Memory blocks;
    Program program;
    if (!Program::measure(model, i, kSets, &sizes).ok() || !Memory::cut(memory, sizes, &blocks).ok() ||
        !program.bind(model, i, kSets, blocks).ok())
      return false;
    for (uint32_t k = 0; k < program.input_count(); ++k)
      std::memset(program.input(k).data(), 1, program.input(k).size());
    // Input bytes of 1 are no valid labels, so kIndex is allowed.
    const auto fine = [](const Status& s) { return s.ok() || s.code == Code::kIndex; };
    if (!fine(program.run()) || (program.view().batch > 1 && !fine(program.run_rows(1)))) return false;
    for (uint32_t k = 0; k < program.output_count(); ++k)
      for (const std::byte b : program.output(k)) sum += uint64_t(b);
  }
  return true;
}

// Opens, measures, binds and runs program 0 through the C API.
bool infer_c(std::span<const std::byte> file) {
  nacre_model model;
  nacre_program program;
  nacre_sizes sizes = {};
  sizes.size = sizeof sizes;
  const nacre_kernels* kernels = nacre_reference_kernels();
  if (nacre_model_open(&model, file.data(), file.size()).code != 0) return false;
  if (nacre_program_measure(&model, 0, kernels, &sizes).code != 0) return false;
  if (nacre_program_bind(&program, &model, 0, kernels, memory, sizeof memory).code != 0) return false;
  return nacre_program_run(&program).code == 0;
}

int runs = 0, failures = 0;

void run_armed(const char* name, const Buffer& file) {
  std::memset(memory, 0, sizeof memory);
  arm(true);
  const bool good = infer(file.bytes()) && infer_c(file.bytes());
  arm(false);
  ++runs;
  if (!good) ++failures, std::printf("FAIL %s: refused\n", name);
}

int claim() {
  for (const ModelCase& c : cases()) run_armed(c.name, pack(c.make()));
  int networks = 0;
  for (const Network& network : kNetworks) {
    Buffer file;
    std::string why;
    if (!convert(network, &file, &why)) {
      std::printf("%s: %s\n", network.name, why.c_str());
      continue;
    }
    ++networks;
    run_armed(network.name, file);
  }
  const bool trapped = allocator_works();
  std::printf("deliberate allocations by malloc, operator new and calloc are%s seen\n", trapped ? "" : " NOT");

  const char* library = std::getenv("NACRE_LIBRARY");
  const bool instrumented = nacre::test::sanitized();  // sanitizers add symbols of their own
  const bool read = library != nullptr && !instrumented;
  const bool clean = read && symbols(library);
  if (!read)
    std::printf("symbols not read: %s\n",
                instrumented ? "the library is instrumented" : "NACRE_LIBRARY must name libnacre.a");
  const bool good = failures == 0 && trapped && (clean || !read);
  std::printf(
      "CLAIM no_heap %s: %d models (%d networks) ran from open to output with an allocator that kills, %d failed; "
      "symbols %s\n",
      !good  ? "NOT shown"
      : read ? "shown"
             : "partly shown",
      runs, networks, failures,
      clean  ? "clean"
      : read ? "NOT clean"
             : "not read");
  return !good ? 1 : read || instrumented ? 0 : 77;
}

}  // namespace
}  // namespace nacre::test

int main() { return nacre::test::claim(); }

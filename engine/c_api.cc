#include <cstring>

#include "engine/c_api.h"
#include "engine/nacre.h"
#include "engine/run/static_program.h"

namespace {

using nacre::Model;
using nacre::Program;
using nacre::to_c;

static_assert(sizeof(Model) <= sizeof(nacre_model) && alignof(Model) <= alignof(nacre_model));
static_assert(sizeof(Program) <= sizeof(nacre_program) && alignof(Program) <= alignof(nacre_program));
static_assert(std::is_trivially_copyable_v<Model> && std::is_trivially_copyable_v<Program>);

// 10,000 major + 100 minor + patch, of "1.2.3".
constexpr uint32_t version_number(const char* text) {
  uint32_t numbers[3] = {};
  for (uint32_t* number = numbers; *text != 0; ++text) {
    if (*text == '.') ++number;
    else *number = 10 * *number + uint32_t(*text - '0');
  }
  return 10'000 * numbers[0] + 100 * numbers[1] + numbers[2];
}
static_assert(version_number(NACRE_VERSION) == nacre::kLibraryVersion);

// Handles are filled by copying an object's bytes into them, which creates the object (C++20 [intro.object] 10).
const Model& of(const nacre_model* model) {
  return *static_cast<const Model*>(static_cast<const void*>(model->opaque));
}
const Program& of(const nacre_program* program) {
  return *static_cast<const Program*>(static_cast<const void*>(program->opaque));
}

}  // namespace

extern "C" {

const char* nacre_version(void) { return NACRE_VERSION; }
const char* nacre_sentence(uint8_t code) { return nacre::sentence(nacre::Code(code)); }

const nacre_kernels* nacre_reference_kernels(void) { return &nacre::reference::kernels(); }

nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size) {
  Model object;
  const nacre::Status status = object.open({static_cast<const std::byte*>(bytes), size});
  std::memcpy(model->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_model_check_weights(const nacre_model* model) { return to_c(of(model).check_weights()); }

uint32_t nacre_model_program_count(const nacre_model* model) {
  return of(model).opened() ? of(model).program_count() : 0;
}

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes) {
  const nacre::KernelSet* set = kernels;
  nacre::Sizes measured;
  const nacre::Status status = Program::measure(of(model), program, {&set, 1}, &measured);
  to_c(measured, sizes);
  return to_c(status);
}

nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index,
                                const nacre_kernels* kernels, void* memory, size_t size) {
  Program object;
  const nacre::KernelSet* set = kernels;
  nacre::Sizes sizes;
  nacre::Memory blocks;
  nacre::Status status = Program::measure(of(model), index, {&set, 1}, &sizes);
  if (status.ok()) status = nacre::Memory::cut({static_cast<std::byte*>(memory), size}, sizes, &blocks);
  if (status.ok()) status = object.bind(of(model), index, {&set, 1}, blocks);
  std::memcpy(program->opaque, &object, sizeof object);
  return to_c(status);
}

uint32_t nacre_program_input_count(const nacre_program* program) { return of(program).input_count(); }
uint32_t nacre_program_output_count(const nacre_program* program) { return of(program).output_count(); }

void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size) {
  const std::span<std::byte> bytes = of(program).input(index);
  *size = bytes.size();
  return bytes.data();
}

const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size) {
  const std::span<const std::byte> bytes = of(program).output(index);
  *size = bytes.size();
  return bytes.data();
}

nacre_status nacre_program_start(const nacre_program* program) { return to_c(of(program).start()); }
nacre_status nacre_program_run(const nacre_program* program) { return to_c(of(program).run()); }
nacre_status nacre_program_run_rows(const nacre_program* program, uint32_t rows) {
  return to_c(of(program).run_rows(rows));
}

}  // extern "C"

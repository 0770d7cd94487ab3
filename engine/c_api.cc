#include <cstddef>
#include <cstring>

#include "engine/c_api.h"
#include "engine/nacre.h"
#include "engine/run/static_program.h"

namespace {

using nacre::arguments;
using nacre::bytes_of;
using nacre::Model;
using nacre::of;
using nacre::Program;
using nacre::to_c;
using nacre::usable;

static_assert(sizeof(Model) <= sizeof(nacre_model) && alignof(Model) <= alignof(nacre_model));
static_assert(sizeof(Program) <= sizeof(nacre_program) && alignof(Program) <= alignof(nacre_program));
static_assert(uint8_t(nacre::Code::kArgument) == NACRE_ARGUMENT && uint8_t(nacre::Code::kNoName) == NACRE_NO_NAME);
static_assert(std::is_trivially_copyable_v<Model> && std::is_trivially_copyable_v<Program>);

// Returns 10,000 major + 100 minor + patch of a text such as "1.2.3".
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
const Program& of(const nacre_program* program) {
  return *static_cast<const Program*>(static_cast<const void*>(program->opaque));
}

auto measure_of(const nacre_model* model, uint32_t program, std::span<const nacre_kernels* const> kernels) {
  return [=](const nacre::Machine& machine, nacre::Sizes* sizes) {
    return Program::measure(of(model), program, kernels, sizes, machine);
  };
}

}  // namespace

extern "C" {

const char* nacre_version(void) { return NACRE_VERSION; }
uint32_t nacre_c_version(void) { return NACRE_C_VERSION; }
const char* nacre_sentence(uint8_t code) { return nacre::sentence(nacre::Code(code)); }

const nacre_kernels* nacre_reference_kernels(void) { return &nacre::reference::kernels(); }

nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size) {
  if (const nacre::Status s = arguments(model != nullptr); !s.ok()) return to_c(s);
  Model object;
  const nacre::Status status = object.open({static_cast<const std::byte*>(bytes), size});
  std::memcpy(model->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_model_open_with(nacre_model* model, const void* bytes, size_t size, const nacre_limits* limits) {
  const nacre::Status s = arguments(model != nullptr, true, true, limits != nullptr && limits->size >= sizeof *limits);
  if (!s.ok()) return to_c(s);
  nacre::Limits bounds;
  const auto set = [](auto own, auto* bound) {
    if (own != 0) *bound = own;
  };
  set(limits->tensors, &bounds.tensors);
  set(limits->steps, &bounds.steps);
  set(limits->string_bytes, &bounds.string_bytes);
  set(limits->file_bytes, &bounds.file_bytes);
  set(limits->work, &bounds.work);
  Model object;
  const nacre::Status status = object.open({static_cast<const std::byte*>(bytes), size}, bounds);
  std::memcpy(model->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_model_attach(nacre_model* model, uint32_t segment, const void* data, size_t size) {
  if (const nacre::Status s = arguments(model != nullptr, true, data != nullptr); !s.ok()) return to_c(s);
  Model object = of(model);
  const nacre::Status status = object.attach(segment, {static_cast<const std::byte*>(data), size});
  std::memcpy(model->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_model_check_weights(const nacre_model* model) {
  if (const nacre::Status s = arguments(model != nullptr); !s.ok()) return to_c(s);
  return to_c(of(model).check_weights());
}

uint32_t nacre_model_program_count(const nacre_model* model) {
  return model != nullptr && of(model).opened() ? of(model).program_count() : 0;
}

nacre_status nacre_program_measure_with(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                        size_t count, const nacre_workers* workers, nacre_sizes* sizes) {
  const nacre::Status s =
      arguments(model != nullptr, true, usable(kernels, count), true, usable(workers), usable(sizes));
  if (!s.ok()) return to_c(s);
  nacre::CSizes measured;
  const nacre::Status status = measure_both(measure_of(model, program, {kernels, count}), workers, &measured);
  to_c(measured, sizes);
  return to_c(status);
}

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes) {
  const nacre::Status s = arguments(model != nullptr, true, kernels != nullptr, usable(sizes));
  return s.ok() ? nacre_program_measure_with(model, program, &kernels, 1, nullptr, sizes) : to_c(s);
}

nacre_status nacre_program_measure_for(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                       size_t count, const nacre_machine* machine, nacre_sizes* sizes) {
  const nacre::Status s =
      arguments(model != nullptr, true, usable(kernels, count), true, nacre::usable_machine(machine), usable(sizes));
  if (!s.ok()) return to_c(s);
  nacre::Sizes measured;
  const nacre::Status status = measure_of(model, program, {kernels, count})(nacre::machine_of(*machine), &measured);
  nacre::give(to_c(measured), sizes);
  return to_c(status);
}

nacre_status nacre_program_bind_with(nacre_program* program, const nacre_model* model, uint32_t index,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size) {
  const nacre::Status s =
      arguments(program != nullptr, model != nullptr, true, usable(kernels, count), true, usable(workers));
  if (!s.ok()) return to_c(s);
  Program object;
  nacre::Memory blocks;
  nacre::Status status =
      cut(measure_of(model, index, {kernels, count}), workers, {static_cast<std::byte*>(memory), size}, &blocks);
  if (status.ok()) status = object.bind(of(model), index, {kernels, count}, blocks, of(workers));
  std::memcpy(program->opaque, &object, sizeof object);
  return to_c(status);
}

nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index,
                                const nacre_kernels* kernels, void* memory, size_t size) {
  const nacre::Status s = arguments(program != nullptr, model != nullptr, true, kernels != nullptr);
  return s.ok() ? nacre_program_bind_with(program, model, index, &kernels, 1, nullptr, memory, size) : to_c(s);
}

void nacre_program_unbind(nacre_program* program) {
  if (program != nullptr) static_cast<Program*>(static_cast<void*>(program->opaque))->unbind();
}
uint32_t nacre_program_input_count(const nacre_program* program) {
  return program == nullptr ? 0 : of(program).input_count();
}
uint32_t nacre_program_output_count(const nacre_program* program) {
  return program == nullptr ? 0 : of(program).output_count();
}

void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size) {
  return bytes_of(program == nullptr ? std::span<std::byte>() : of(program).input(index), size);
}

const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size) {
  return bytes_of(program == nullptr ? std::span<const std::byte>() : of(program).output(index), size);
}

const void* nacre_program_tensor(const nacre_program* program, uint32_t tensor, size_t* size) {
  return bytes_of(program == nullptr ? std::span<std::byte>() : of(program).bytes(tensor), size);
}

nacre_status nacre_program_start(const nacre_program* program) {
  if (const nacre::Status s = arguments(program != nullptr); !s.ok()) return to_c(s);
  return to_c(of(program).start());
}
nacre_status nacre_program_run(const nacre_program* program) {
  if (const nacre::Status s = arguments(program != nullptr); !s.ok()) return to_c(s);
  return to_c(of(program).run());
}
nacre_status nacre_program_run_rows(const nacre_program* program, uint32_t rows) {
  if (const nacre::Status s = arguments(program != nullptr); !s.ok()) return to_c(s);
  return to_c(of(program).run_rows(rows));
}

uint32_t nacre_program_step_count(const nacre_program* program) {
  return program != nullptr && of(program).bound() ? of(program).view().step_count : 0;
}
nacre_status nacre_program_run_steps(const nacre_program* program, uint32_t first, uint32_t last, uint32_t rows) {
  if (const nacre::Status s = arguments(program != nullptr); !s.ok()) return to_c(s);
  return to_c(of(program).run(first, last, rows));
}
nacre_status nacre_program_run_hooked(const nacre_program* program, uint32_t rows, nacre_step_hook hook,
                                      void* context) {
  if (const nacre::Status s = arguments(program != nullptr, true, hook != nullptr); !s.ok()) return to_c(s);
  const uint32_t steps = nacre_program_step_count(program);
  if (steps == 0) return to_c(of(program).run());  // the program is not bound: run() returns that refusal
  for (uint32_t i = 0; i < steps; ++i) {
    hook(context, i, 0);
    const nacre::Status status = of(program).run(i, i + 1, rows);
    hook(context, i, 1);
    if (!status.ok()) return to_c(status);
  }
  return {};
}

}  // extern "C"

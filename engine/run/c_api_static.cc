// The C API of static programs. It is a file of its own, so an image of a static program links no other part of the C
// API.
#include "engine/nacre_c.h"
#include "engine/run/static_program.h"

namespace {

using List = std::span<const std::span<std::byte>>;

std::byte* bytes_of(List list, uint32_t index, size_t* size) {
  const std::span<std::byte> bytes = index < list.size() ? list[index] : std::span<std::byte>();
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}

}  // namespace

extern "C" {

void* nacre_static_input(const nacre_static_program* program, uint32_t index, size_t* size) {
  return bytes_of(program == nullptr ? List() : List(program->inputs), index, size);
}
const void* nacre_static_output(const nacre_static_program* program, uint32_t index, size_t* size) {
  return bytes_of(program == nullptr ? List() : List(program->outputs), index, size);
}
void nacre_static_start(const nacre_static_program* program) {
  if (program != nullptr) nacre::start_stream(*program);
}
uint8_t nacre_static_run(const nacre_static_program* program) {
  return program == nullptr ? NACRE_ARGUMENT : uint8_t(program->run());
}

uint32_t nacre_static_input_count(const nacre_static_program* program) {
  return program == nullptr ? 0 : uint32_t(program->inputs.size());
}
uint32_t nacre_static_output_count(const nacre_static_program* program) {
  return program == nullptr ? 0 : uint32_t(program->outputs.size());
}
uint32_t nacre_static_step_count(const nacre_static_program* program) {
  return program == nullptr ? 0 : program->call_count;
}
uint8_t nacre_static_run_steps(const nacre_static_program* program, uint32_t first, uint32_t last) {
  if (program == nullptr) return NACRE_ARGUMENT;
  if (first > last || last > program->call_count) return uint8_t(nacre::Code::kRange);
  uint32_t at = 0;
  return uint8_t(program->calls.run(first, last, 0, &at));
}
uint8_t nacre_static_run_hooked(const nacre_static_program* program, nacre_step_hook hook, void* context) {
  if (program == nullptr || hook == nullptr) return NACRE_ARGUMENT;
  uint8_t code = 0;
  for (uint32_t i = 0; i < program->call_count && code == 0; ++i) {
    hook(context, i, 0);
    code = nacre_static_run_steps(program, i, i + 1);
    hook(context, i, 1);
  }
  return code;
}

}  // extern "C"

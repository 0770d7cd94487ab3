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

}  // extern "C"

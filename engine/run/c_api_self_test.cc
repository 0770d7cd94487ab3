// The self-test of static programs for C (nacre_c.h). It is separate from c_api_static.cc, so an image without a
// self-test links none of it.
#include "engine/nacre_c.h"
#include "engine/run/self_test.h"

extern "C" {

int nacre_static_intact(const nacre_static_program* program) {
  return program == nullptr ? 0 : int(nacre::table_crc(*program) == program->crc);
}

int nacre_static_self_test(const nacre_static_program* program, const nacre_golden_pairs* pairs,
                           void (*print)(const char* text)) {
  if (program == nullptr || pairs == nullptr || pairs->size < sizeof *pairs || print == nullptr) return -1;
  if (pairs->count != 0 && (pairs->inputs == nullptr || pairs->outputs == nullptr)) return -1;
  const nacre::GoldenPairs golden = {static_cast<const uint8_t*>(pairs->inputs),
                                     static_cast<const uint8_t*>(pairs->outputs), pairs->count,
                                     pairs->close != 0 ? nacre::close_floats : nacre::same_bytes};
  return nacre::self_test(*program, golden, print);
}

}  // extern "C"

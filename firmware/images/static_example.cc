// The example image of a static program. It holds what `nacre firmware` wrote, and of the engine only what that uses.
// It reads no files of the host; its self-test runs the golden pairs. A product includes NAME.h and calls
// NAME_program.run().

#include NACRE_STATIC_HEADER

#include "firmware/board/instruction_count.h"
#include "firmware/board/print.h"
#include "firmware/board/stack_use.h"
#include "firmware/images/host.h"

int app_main() {
  using namespace nacre::firmware;
  const int failed = model_self_test(print);
  start_ticks();
  const bool ran = model_program.run() == nacre::Code::kOk;
  report("instructions_run", instructions(read_ticks()));
  report("stack", stack_use_bytes());
  report("failed", uint32_t(failed));
  return failed == 0 && ran ? 0 : 1;
}

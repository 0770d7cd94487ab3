// The code between reset and app_main(). It has no libc and no static constructors, which the linker script refuses.

#include "firmware/board/startup.h"

#include "firmware/board/semihosting.h"
#include "firmware/board/stack_use.h"

// The loops test `<`, not `!=`: gcc assumes that two symbols have different addresses and would enter the loop for an
// empty section.
extern "C" [[noreturn, gnu::used]] void start() {
  nacre::firmware::protect_memory();
  nacre::firmware::paint_stack();
  const uint32_t* image = nacre_data_image;
  for (uint32_t* word = nacre_data_begin; word < nacre_data_end; ++word) *word = *image++;
  for (uint32_t* word = nacre_bss_begin; word < nacre_bss_end; ++word) *word = 0;
  nacre::semihosting::exit(app_main());
}

/* Runs a network that was bound on a PC, as a firmware does: no file to open, no memory to measure, nothing to bind.
 *
 *   nacre firmware digits.nacre --target host --name digits -o made
 *   c++ -std=c++20 -c made/digits.cc made/digits_weights.cc made/digits_test.cc $(pkg-config --cflags nacre)
 *   cc -c static.c -Imade $(pkg-config --cflags nacre)
 *   c++ *.o -o static $(pkg-config --libs nacre)
 *   ./static < samples.f32 > outputs.f32
 *
 * Samples are the bytes of input 0. The self-test runs first: the constants of the image are those that the PC wrote,
 * and its outputs are those that the PC computed. */
#include <nacre/nacre_c.h>
#include <stdio.h>

#include "digits.h"

static void print(const char* text) { fputs(text, stderr); }

/* Counts steps; a firmware reads its cycle counter here. */
static void on_step(void* context, uint32_t step, int ended) {
  (void)step;
  if (ended) ++*(uint32_t*)context;
}

int main(void) {
  if (!nacre_static_intact(&digits_program) || digits_self_test(print) != 0) return 4;
  size_t in_bytes = 0, out_bytes = 0;
  void* input = nacre_static_input(&digits_program, 0, &in_bytes);
  const void* output = nacre_static_output(&digits_program, 0, &out_bytes);
  uint32_t steps = 0, runs = 0;
  nacre_static_start(&digits_program); /* of a network that remembers: its state is zero */
  while (fread(input, 1, in_bytes, stdin) == in_bytes) {
    const uint8_t code = nacre_static_run_hooked(&digits_program, on_step, &steps);
    if (code != 0) return fprintf(stderr, "%s\n", nacre_sentence(code)), 3;
    fwrite(output, 1, out_bytes, stdout);
    ++runs;
  }
  fprintf(stderr, "%lu runs of %lu steps\n", (unsigned long)runs,
          (unsigned long)nacre_static_step_count(&digits_program));
  return steps == runs * nacre_static_step_count(&digits_program) && fflush(stdout) == 0 ? 0 : 1;
}

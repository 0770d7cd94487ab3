// The example image: a model in flash, all memory in .bss, input 0 and output 0 as files of the host.
//
//   example [INPUT OUTPUT]...     INPUT holds the bytes of input 0; the bytes of output 0 are written to OUTPUT
//
// The image prints the bytes that the application must provide, exactly, and the cost of a run. A product does the
// same without files: open, measure (or `nacre size` on a PC and a constant), bind once; then write the input, run,
// read the output.

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "firmware/board/instruction_count.h"
#include "firmware/board/semihosting.h"
#include "firmware/board/stack_use.h"
#include "firmware/images/host.h"
#include "firmware/images/model_image.h"

// Defines model_kernels, the kernels of this model and no others. `nacre kernels model.nacre` writes this header.
#define NACRE_DEFINE_MODEL_KERNELS
#include NACRE_MODEL_KERNELS

namespace nacre::firmware {
namespace {

alignas(kAlignment) constinit std::byte g_memory[NACRE_MEMORY_BYTES];
constinit Model g_model;
constinit Program g_program;
constinit Sizes g_sizes;
constinit Memory g_blocks;

// Not inlined, like run_files(), so that bind, which uses the most stack, has less above it.
[[gnu::noinline]] void report_sizes() {
  report("model_object", sizeof g_model);
  report("program_object", sizeof g_program);
  report("steps", g_model.steps().size());
  report("calls", g_sizes.bytes[kCalls]);
  report("prepared", g_sizes.bytes[kPrepared]);
  report("scratch", g_sizes.bytes[kScratch]);
  for (uint32_t bank = 0; bank < g_model.program(0).banks.size(); ++bank) report("arena", g_sizes.bytes[kArena + bank]);
  report("total", g_sizes.total());
  report("flash", g_model.bytes().size());
}

Status prepare() {
  const KernelSet* const kernels[] = {&model_kernels};
  NACRE_TRY(g_model.open(model_image()));
  NACRE_TRY(Program::measure(g_model, 0, kernels, &g_sizes));
  NACRE_TRY(Memory::cut(g_memory, g_sizes, &g_blocks));
  return g_program.bind(g_model, 0, kernels, g_blocks);
}

// Runs the model for pairs of input and output files, whose names are the arguments. Returns the exit status.
[[gnu::noinline]] int run_files() {
  static char line[8192];
  if (!semihosting::read_command_line(line)) return complain("the command line is too long", "");
  char* rest = line;
  semihosting::next_word(rest);  // the image's name
  while (const char* input = semihosting::next_word(rest)) {
    const char* output = semihosting::next_word(rest);
    if (output == nullptr) return complain("no output file for ", input);
    if (!read_file(input, g_program.input(0))) return complain("cannot read exactly the input's bytes from ", input);
    start_ticks();
    if (const Status status = g_program.run(); !status.ok()) return refuse(status);
    report("instructions_run", instructions(read_ticks()));
    if (!write_file(output, g_program.output(0))) return complain("cannot write ", output);
  }
  return 0;
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre::firmware;
  start_ticks();
  if (const nacre::Status status = prepare(); !status.ok()) return refuse(status);
  report("instructions_prepare", instructions(read_ticks()));
  report_sizes();
  report("stack_prepare", stack_use_bytes());
  if (const int wrong = run_files(); wrong != 0) return wrong;
  report("stack", stack_use_bytes());
  return 0;
}

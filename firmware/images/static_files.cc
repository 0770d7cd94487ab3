// Runs a static program on data of the host, for tests:
//
//   static_files [INPUT OUTPUT]...   pairs of files with the bytes of all inputs and outputs in order. The self-test
//                                    follows
//
// static_example.cc is closer to a product.

#include NACRE_STATIC_HEADER

#include "firmware/board/instruction_count.h"
#include "firmware/board/print.h"
#include "firmware/board/stack_use.h"
#include "firmware/images/host.h"

namespace nacre::firmware {
namespace {

bool read_inputs(const char* path) {
  const int file = semihosting::open(path, semihosting::Mode::kRead);
  if (file < 0) return false;
  bool whole = true;
  for (const std::span<std::byte> input : model_program.inputs) whole &= read_all(file, input);
  return semihosting::close(file) && whole;
}

bool write_outputs(const char* path) {
  const int file = semihosting::open(path, semihosting::Mode::kWrite);
  if (file < 0) return false;
  bool whole = true;
  for (const std::span<std::byte> output : model_program.outputs) whole &= write_all(file, output);
  return semihosting::close(file) && whole;
}

int run_files(char* rest) {
  semihosting::next_word(rest);  // the image's name
  while (const char* const input = semihosting::next_word(rest)) {
    const char* const output = semihosting::next_word(rest);
    if (output == nullptr) return complain("no output is named for ", input);
    if (!read_inputs(input)) return complain("cannot read the bytes of all inputs from ", input);
    start_stream(model_program);
    if (model_program.run() != Code::kOk) return complain("the program fails on ", input);
    if (!write_outputs(output)) return complain("cannot write ", output);
  }
  return 0;
}

int test() {
  const int failed = model_self_test(print);
  start_ticks();
  const bool ran = model_program.run() == Code::kOk;
  report("instructions_run", instructions(read_ticks()));
  report("stack", stack_use_bytes());
  report("failed", uint32_t(failed));
  return failed == 0 && ran ? 0 : 1;
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre;
  char line[1000];
  if (!semihosting::read_command_line(line)) return 9;
  const int status = firmware::run_files(line);
  return status != 0 ? status : firmware::test();
}

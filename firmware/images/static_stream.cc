// The image of a static program that listens to a stream (made by `nacre convert --front-end` and `nacre firmware`).
//
//   static_stream SAMPLES SCORES CLASSES     SAMPLES is 16-bit mono at 16 kHz; CLASSES e.g. silence,unknown,yes,no
//
// It prints the words that it hears, as tools/samples/keyword_stream.cc does, writes the scores of every run, and
// counts the instructions of runs and recognizer. A product fills the input from its microphone, not from a file.

#include NACRE_STATIC_HEADER

#include "firmware/board/instruction_count.h"
#include "firmware/board/stack_use.h"
#include "firmware/images/host.h"
#include "firmware/images/word_recognizer.h"

namespace nacre::firmware {
namespace {

constexpr uint32_t kPerMillisecond = 16;  // samples

constinit samples::WordRecognizer g_recognizer;

struct Counts {
  uint32_t runs, instructions, most;  // `most` is the largest count of a run
};

void print_word(uint32_t ms, const char* classes, const samples::Heard& heard) {
  for (int word = heard.word; word > 0; ++classes)
    if (*classes == ',') --word;
  char name[32];
  size_t length = 0;
  while (length + 1 < sizeof name && classes[length] != 0 && classes[length] != ',') {
    name[length] = classes[length];
    ++length;
  }
  name[length] = 0;
  print_unsigned(ms);
  print(" ms ");
  print(name);
  report("", uint32_t(heard.average));
}

int listen(int samples, int scores, const char* classes, Counts* counts) {
  const std::span<std::byte> input = model_program.inputs[0], output = model_program.outputs[0];
  const std::span<const int8_t> given(reinterpret_cast<const int8_t*>(output.data()), output.size());
  const uint32_t per_run = uint32_t(input.size() / sizeof(int16_t));
  g_recognizer.start(samples::hearing_rule(int(per_run / kPerMillisecond)));
  start_stream(model_program);
  while (read_all(samples, input)) {
    start_ticks();
    if (model_program.run() != Code::kOk) return complain("the program fails", "");
    const samples::Heard heard = g_recognizer.hear(given);
    const uint32_t spent = uint32_t(instructions(read_ticks()));
    counts->instructions += spent;
    if (spent > counts->most) counts->most = spent;
    ++counts->runs;
    if (!write_all(scores, output)) return complain("cannot write the scores", "");
    if (heard.word >= 0) print_word(uint32_t(uint64_t{counts->runs} * per_run / kPerMillisecond), classes, heard);
  }
  return 0;
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre;
  static char line[1000];
  if (!semihosting::read_command_line(line)) return 9;
  char* rest = line;
  semihosting::next_word(rest);  // the image's name
  const char* const from = semihosting::next_word(rest);
  const char* const to = semihosting::next_word(rest);
  const char* const classes = semihosting::next_word(rest);
  if (classes == nullptr) return firmware::complain("usage: static_stream SAMPLES SCORES CLASSES", "");
  const int samples = semihosting::open(from, semihosting::Mode::kRead);
  if (samples < 0) return firmware::complain("cannot read ", from);
  const int scores = semihosting::open(to, semihosting::Mode::kWrite);
  if (scores < 0) return firmware::complain("cannot write ", to);
  firmware::Counts counts = {};
  if (const int status = firmware::listen(samples, scores, classes, &counts); status != 0) return status;
  if (!semihosting::close(scores)) return firmware::complain("cannot write ", to);
  firmware::report("runs", counts.runs);
  firmware::report("instructions", counts.instructions);
  firmware::report("instructions_most", counts.most);
  firmware::report("stack", firmware::stack_use_bytes());
  return 0;
}

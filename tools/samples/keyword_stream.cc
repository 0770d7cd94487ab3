// Listens to a stream of samples with a model of `nacre convert --front-end`, and prints the words that it hears.
//
//   keyword_stream MODEL CLASSES SCORES < SAMPLES     CLASSES: silence,unknown,yes,no
//
// SAMPLES: 16-bit mono at 16 kHz, raw or as WAV; `arecord -t raw -f S16_LE -r 16000` gives such samples. SCORES: a
// file for the scores of every run, for comparison; - for no file. A word's time is that of the last sample heard.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "engine/nacre.h"
#include "firmware/images/word_recognizer.h"
#include "tools/base/error.h"
#include "tools/base/standard_streams.h"
#include "tools/files/atomic_file.h"
#include "tools/files/command_files.h"
#include "tools/files/input_file.h"

namespace {

using nacre::tools::Error;

constexpr int kRate = 16000;

void require(const char* what, const nacre::Status& status) {
  if (!status.ok()) throw Error(nacre::tools::kBadInput, what, nacre::sentence(status.code));
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == ',') words.emplace_back();
    else words.back() += c;
  return words;
}

// Reads whole blocks of standard input. If it is a WAV file, skips everything before its samples: "RIFF....WAVE", and
// chunks of a 4-byte tag and a length, up to the chunk "data".
class Samples {
 public:
  Samples() {
    if (!fill(head_, 12) || std::memcmp(head_, "RIFF", 4) != 0) return;
    std::string skipped;
    for (unsigned char chunk[8]; held_ = 0, std::fread(chunk, 1, 8, stdin) == 8;) {
      const size_t bytes = chunk[4] | chunk[5] << 8 | chunk[6] << 16 | size_t(chunk[7]) << 24;
      if (std::memcmp(chunk, "data", 4) == 0) return;
      skipped.resize(bytes + bytes % 2);
      if (std::fread(skipped.data(), 1, skipped.size(), stdin) != skipped.size()) break;
      if (std::memcmp(chunk, "fmt ", 4) == 0) check_format(skipped);
    }
    throw Error(nacre::tools::kBadInput, "standard input", "is a WAV file without samples");
  }

  bool read(std::span<std::byte> block) {
    const size_t first = std::min(held_, block.size());
    std::memcpy(block.data(), head_, first);
    std::memmove(head_, head_ + first, held_ -= first);
    return std::fread(block.data() + first, 1, block.size() - first, stdin) == block.size() - first;
  }

 private:
  bool fill(char* to, size_t bytes) { return (held_ = std::fread(to, 1, bytes, stdin)) == bytes; }

  static void check_format(const std::string& f) {
    const auto word = [&](size_t i) { return f.size() > i + 1 ? int(uint8_t(f[i])) | int(uint8_t(f[i + 1])) << 8 : 0; };
    if (word(0) != 1 || word(2) != 1 || word(4) != kRate || word(6) != 0 || word(14) != 16)
      throw Error(nacre::tools::kBadInput, "standard input", "is a WAV file of another format",
                  "give 16-bit mono samples at 16 kHz");
  }

  char head_[12];  // bytes read to tell the format; in raw data they are samples
  size_t held_ = 0;
};

int listen(char** arguments) {
  const std::vector<uint8_t> file = nacre::tools::read_file(arguments[1]);
  std::vector<std::max_align_t> aligned(file.size() / sizeof(std::max_align_t) + 1);
  std::memcpy(aligned.data(), file.data(), file.size());
  const std::vector<std::string> classes = split(arguments[2]);

  nacre::Model model;
  nacre::Program program;
  nacre::Sizes sizes;
  nacre::Memory memory;
  const nacre::KernelSet* const kernels[] = {&nacre::reference::kernels()};
  require(arguments[1], model.open(std::as_bytes(std::span(aligned)).first(file.size())));
  require(arguments[1], nacre::Program::measure(model, 0, kernels, &sizes));
  std::vector<std::max_align_t> block(sizes.total() / sizeof(std::max_align_t) + 1);
  require(arguments[1], nacre::Memory::cut(std::as_writable_bytes(std::span(block)), sizes, &memory));
  require(arguments[1], program.bind(model, 0, kernels, memory));
  const std::span<std::byte> input = program.input(0);
  const std::span<const std::byte> output = program.output(0);
  if (output.size() != classes.size() || classes.size() > nacre::samples::WordRecognizer::kMostClasses)
    throw Error(nacre::tools::kUsage, arguments[2],
                "names " + std::to_string(classes.size()) + " classes and the model's output has " +
                    std::to_string(output.size()) + " bytes",
                "name each, of 16 at most");

  std::optional<nacre::tools::AtomicFile> scores;
  if (std::strcmp(arguments[3], "-") != 0) {
    nacre::tools::CommandFiles files;
    files.add_input("MODEL", arguments[1]);
    files.add_input("SAMPLES", "/dev/stdin");
    files.add_output("SCORES", arguments[3]);
    scores.emplace(arguments[3]);
  }
  const size_t samples_per_run = input.size() / sizeof(int16_t);
  nacre::samples::WordRecognizer recognizer;
  recognizer.start(nacre::samples::hearing_rule(int(samples_per_run * 1000 / kRate)));
  Samples samples;
  uint64_t heard_samples = 0;
  double seconds = 0;
  require("start", program.start());
  while (samples.read(input)) {
    const auto start = std::chrono::steady_clock::now();
    require("run", program.run());
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    heard_samples += samples_per_run;
    const std::span<const int8_t> given(reinterpret_cast<const int8_t*>(output.data()), output.size());
    if (scores) scores->write({reinterpret_cast<const uint8_t*>(output.data()), output.size()});
    const nacre::samples::Heard heard = recognizer.hear(given);
    if (heard.word < 0) continue;
    std::printf("%llu ms %s %d\n", static_cast<unsigned long long>(heard_samples * 1000 / kRate),
                classes[size_t(heard.word)].c_str(), heard.average);
    std::fflush(stdout);
  }
  if (scores) scores->commit();
  std::fprintf(stderr, "%.1f seconds of audio in %.3f seconds, reference kernels; %llu bytes of memory\n",
               double(heard_samples) / kRate, seconds, static_cast<unsigned long long>(sizes.total()));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (!nacre::tools::open_standard_streams()) return 1;
  if (count != 4) {
    std::fprintf(stderr, "usage: keyword_stream MODEL CLASSES SCORES < SAMPLES\n");
    return nacre::tools::kUsage;
  }
  try {
    return listen(arguments);
  } catch (const Error& error) {
    std::fprintf(stderr, "keyword_stream: %s\n", error.what());
    return error.code;
  }
}

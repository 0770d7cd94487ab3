// Reads handwritten digits with a converted model, as an application does.
//
//   digits MODEL IMAGES.npy LABELS.npy INDICES.npy [KERNELS]
//
// Opens the model, gives it memory and runs it on every image of the list. Prints how many were read right, how long
// it took, and a few of the digits. KERNELS is a choice of `nacre run`; the default is the fastest here.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "engine/nacre.h"
#include "tools/base/error.h"
#include "tools/files/npy.h"
#include "tools/model/kernel_choice.h"

namespace {

using nacre::tools::Error;

constexpr int kWidth = 8, kPixels = kWidth * kWidth, kClasses = 10;

struct Digits {
  std::vector<uint8_t> images, labels;  // [count, 1, 8, 8] with pixels 0 to 16; [count]
  std::vector<int32_t> test;            // indices
};

struct Reading {
  int index, label, read;
};

struct alignas(64) Line {
  std::byte data[64];
};

// The bytes of a file, at an address that is a multiple of 64.
class AlignedFile {
 public:
  explicit AlignedFile(const char* path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw Error(nacre::tools::kIo, path, "cannot be opened", "convert the sample first: see tools/demo.sh");
    size_ = size_t(file.tellg());
    lines_.resize((size_ + 63) / 64);
    file.seekg(0).read(reinterpret_cast<char*>(lines_.data()), std::streamsize(size_));
    if (!file) throw Error(nacre::tools::kIo, path, "cannot be read");
  }
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(lines_.data()), size_}; }

 private:
  std::vector<Line> lines_;
  size_t size_;
};

void require(const char* what, const nacre::Status& status) {
  if (status.ok()) return;
  throw Error(nacre::tools::kBadInput, what, nacre::sentence(status.code));
}

// Returns the class with the largest output.
int best(std::span<const std::byte> output) {
  float scores[kClasses];
  std::memcpy(scores, output.data(), sizeof scores);
  return int(std::max_element(scores, scores + kClasses) - scores);
}

void show(const Digits& digits, std::span<const Reading> readings) {
  constexpr char kInk[] = " .:-=+*#%@";  // light to dark
  for (int row = 0; row < kWidth; ++row) {
    for (const Reading& r : readings) {
      for (int column = 0; column < kWidth; ++column) {
        const int pixel = digits.images[size_t(r.index * kPixels + row * kWidth + column)];
        std::printf("%c%c", kInk[pixel * 9 / 16], kInk[pixel * 9 / 16]);
      }
      std::printf("  ");
    }
    std::printf("\n");
  }
  for (const Reading& r : readings)
    std::printf("%-18s", (r.read == r.label ? "read " + std::to_string(r.read)
                                            : "read " + std::to_string(r.read) + ", is " + std::to_string(r.label))
                             .c_str());
  std::printf("\n");
}

int run(char** arguments, const std::string& kernels_wanted) {
  const AlignedFile file(arguments[1]);
  const Digits digits = {nacre::tools::read_npy(arguments[2]).values<uint8_t>(),
                         nacre::tools::read_npy(arguments[3]).values<uint8_t>(),
                         nacre::tools::read_npy(arguments[4]).values<int32_t>()};

  nacre::Model model;
  nacre::Program program;
  nacre::Sizes sizes;
  nacre::Memory memory;
  const nacre::KernelSet* const kernels[] = {&nacre::reference::kernels()};
  const nacre::Port* const ports[] = {nacre::tools::port_named(kernels_wanted)};  // asked before the reference kernels
  nacre::Places places(ports);
  require("open", model.open(file.bytes()));
  require("check_weights", model.check_weights());
  require("measure", places.measure(model, 0, kernels, &sizes));
  std::vector<Line> block(size_t(sizes.total(places.alignment())) / sizeof(Line) + 1);
  require("memory", nacre::Memory::cut(std::as_writable_bytes(std::span(block)), sizes, &memory, places.alignment()));
  require("bind", places.bind(&program, model, 0, kernels, memory));
  if (program.input(0).size() != kPixels * sizeof(float) || program.output(0).size() != kClasses * sizeof(float))
    throw Error(nacre::tools::kBadInput, arguments[1], "input and output must be 64 pixels and 10 classes, float32");

  std::vector<Reading> right, wrong;
  std::vector<double> microseconds;
  for (const int32_t index : digits.test) {
    if (index < 0 || size_t(index) >= digits.labels.size())
      throw Error(nacre::tools::kBadInput, arguments[4], "an index is out of range");
    float pixels[kPixels];
    std::copy_n(digits.images.begin() + std::ptrdiff_t(index) * kPixels, kPixels, pixels);
    std::memcpy(program.input(0).data(), pixels, sizeof pixels);
    const auto start = std::chrono::steady_clock::now();
    require("run", program.run());
    microseconds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    const Reading reading = {index, digits.labels[size_t(index)], best(program.output(0))};
    (reading.read == reading.label ? right : wrong).push_back(reading);
  }

  std::nth_element(microseconds.begin(), microseconds.begin() + std::ptrdiff_t(microseconds.size() / 2),
                   microseconds.end());
  std::printf("digits: %zu of %zu right (%.2f %%)\n", right.size(), digits.test.size(),
              100.0 * double(right.size()) / double(digits.test.size()));
  std::printf("time per image: %.1f us, median, %s kernels\n", microseconds[microseconds.size() / 2],
              nacre::tools::name_of_port(ports[0]).c_str());
  std::printf("model file: %zu bytes; arena: %llu bytes; all memory: %llu bytes\n\n", file.bytes().size(),
              static_cast<unsigned long long>(sizes.bytes[nacre::kArena]),
              static_cast<unsigned long long>(sizes.total(places.alignment())));
  std::vector<Reading> shown(right.begin(), right.begin() + std::min<std::ptrdiff_t>(4, std::ptrdiff_t(right.size())));
  if (!wrong.empty()) shown.push_back(wrong.front());
  show(digits, shown);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::fprintf(stderr, "usage: digits MODEL IMAGES.npy LABELS.npy INDICES.npy [KERNELS]\n");
    return nacre::tools::kUsage;
  }
  try {
    return run(arguments, count == 6 ? arguments[5] : "auto");
  } catch (const Error& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return error.code;
  }
}

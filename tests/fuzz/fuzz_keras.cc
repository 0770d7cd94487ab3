// libFuzzer target: for any bytes the Keras importer gives a graph that passes check(), or one tools::Error.
//
// Archives and HDF5 files are read as a whole, in libhdf5's process too. All other bytes are read as a JSON
// configuration, where the importer's own work starts. A byte 0 ends the configuration. The variables follow, without
// HDF5 and without a process.
//
//   variable   path, byte 0, rank u8 (modulo 5), that many sizes u8
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/importers/keras/files.h"
#include "tools/importers/shared/network_summary.h"

namespace {

using namespace nacre::tools;

constexpr int64_t kMostNumbers = 1 << 16;

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  std::string text() {
    const auto* end = static_cast<const uint8_t*>(std::memchr(bytes_.data(), 0, bytes_.size()));
    const size_t size = end == nullptr ? bytes_.size() : size_t(end - bytes_.data());
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(std::min(size + 1, bytes_.size()));
    return text;
  }
  uint8_t byte() {
    const uint8_t byte = ended() ? 0 : bytes_[0];
    bytes_ = bytes_.subspan(ended() ? 0 : 1);
    return byte;
  }

 private:
  std::span<const uint8_t> bytes_;
};

Hdf5Dataset read_dataset(Reader& reader) {
  Hdf5Dataset made;
  made.type = nacre::ElementType::kFloat32;
  for (int left = reader.byte() % 5; left > 0; --left) {
    made.dims.push_back(reader.byte());
    if (made.elements() > kMostNumbers) made.dims.back() = 1;
  }
  std::vector<float> numbers(size_t(made.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i % 7) / 8;
  const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
  made.bytes.assign(bytes, bytes + numbers.size() * sizeof(float));
  return made;
}

Graph import_configuration(std::span<const uint8_t> bytes, const ImportOptions& options) {
  Reader reader(bytes);
  keras::Stored stored = {reader.text(), "3.15.1", {}, bytes.size()};
  while (!reader.ended() && stored.file.datasets.size() < 256) {
    const std::string path = reader.text();
    stored.file.datasets[path] = read_dataset(reader);
  }
  return keras::import_stored(stored, "fuzz.json", options);
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Half of the mutations put a number in place of one in the configuration: byte by byte the fuzzer seldom meets limits.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  static constexpr std::string_view kNumbers[] = {"0",
                                                  "-1",
                                                  "1",
                                                  "7",
                                                  "65536",
                                                  "268435456",
                                                  "2147483647",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "1e300",
                                                  "0.5",
                                                  "true",
                                                  "null",
                                                  "[268435456,268435456,268435456]"};
  std::minstd_rand random(seed);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view config = text.substr(0, text.find('\0'));
  const size_t from = config.empty() || config[0] != '{' || random() % 2 == 0 ? config.npos : random() % config.size();
  const size_t begin = from == config.npos ? from : config.find_first_of("0123456789", from);
  if (begin == config.npos) return LLVMFuzzerMutate(data, size, most);
  const size_t end = std::min(config.find_first_not_of("0123456789.e", begin), size);
  std::string made(text.substr(0, begin));
  made += kNumbers[random() % std::size(kNumbers)];
  made += text.substr(end);
  made.resize(std::min(made.size(), most));
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::span<const uint8_t> bytes(data, size);
    const int choice = size > 0 ? data[size - 1] % 3 : 0;
    const ImportOptions options = {.batch = choice == 1 ? 3 : 0, .train = choice == 2};
    const Format format = sniff(bytes);
    if (format == Format::kHdf5) check(import_keras_hdf5(bytes, "fuzz.h5", options));
    else if (format == Format::kZip && choice == 0) summarize_keras(bytes, "fuzz.keras");
    else if (format == Format::kZip) check(import_keras_archive(bytes, "fuzz.keras", options));
    else check(import_configuration(bytes, options));
  } catch (const Error& error) {
    if (error.code == kFailed || std::string(error.what()).empty()) __builtin_trap();  // a broken graph, not bad input
  }
  return 0;
}

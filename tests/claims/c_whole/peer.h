// The C++ peers of tools/samples/c share these (tests/claims/c_whole.sh): files, and an end on a refusal.
#pragma once

#include <nacre/nacre.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace nacre::test {

struct Line64 {  // files and memory start at a multiple of 64
  alignas(64) std::byte bytes[64];
};

struct File {
  std::vector<Line64> lines;
  size_t size = 0;

  explicit File(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> read{std::istreambuf_iterator<char>(stream), {}};
    size = read.size();
    lines.resize(size / 64 + 1);
    if (size != 0) std::memcpy(lines.data(), read.data(), size);
  }
  std::span<const std::byte> bytes() const { return {lines.data()->bytes, size}; }
};

inline void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s (%s %u)\n", sentence(status.code), table_name(status.table), status.index);
  std::exit(3);
}

class Output {
 public:
  explicit Output(const std::string& path) : stream_(path, std::ios::binary) {}
  void write(std::span<const std::byte> bytes) {
    stream_.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }

 private:
  std::ofstream stream_;
};

}  // namespace nacre::test

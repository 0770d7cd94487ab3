// ElementBytes: the bytes of an array's elements. Up to kMostHeldBytes are held in memory. More go to a temporary
// file without a name, in the directory that TMPDIR names, or in /var/tmp. The file is mapped, so it reads like
// memory. Functions that go through the elements call passed(), which releases pages of the file, so a process's memory
// does not grow with its data. The file is removed with the last copy.
//
// Copies share their bytes until one of them is changed. Throws Error(kIo) if the directory has no space.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

namespace nacre::tools {

class ElementBytes {
 public:
  static constexpr size_t kMostHeldBytes = size_t{64} << 20;
  static constexpr size_t kPartBytes = size_t{4} << 20;  // size of the parts of each_part and in_parts

  ElementBytes() = default;
  ElementBytes(std::vector<uint8_t> bytes);
  ElementBytes(std::initializer_list<uint8_t> bytes) : ElementBytes(std::vector<uint8_t>(bytes)) {}
  template <std::input_iterator It>
  ElementBytes(It first, It last) : ElementBytes(std::vector<uint8_t>(first, last)) {}

  size_t size() const;
  bool empty() const { return size() == 0; }
  bool in_file() const;

  const uint8_t* data() const;
  const uint8_t* begin() const { return data(); }
  const uint8_t* end() const { return data() + size(); }
  const uint8_t& operator[](size_t i) const { return data()[i]; }
  uint8_t* data();
  uint8_t* begin() { return data(); }
  uint8_t* end() { return data() + size(); }
  uint8_t& operator[](size_t i) { return data()[i]; }

  void resize(size_t size);  // new bytes are 0
  void clear() { block_.reset(); }
  void append(std::span<const uint8_t> bytes);

  // Counts `bytes` that were read or written. From time to time it releases the pages of the file. Pointers that
  // data() returned stay valid.
  void passed(size_t bytes) const;

  friend bool operator==(const ElementBytes& a, const ElementBytes& b) { return std::ranges::equal(a, b); }

 private:
  struct Block;
  Block& own();  // copies the block first if it is shared

  std::shared_ptr<Block> block_;
};

// Calls f(part, index of its first element) for all parts in order. Elements have `element_bytes` each.
template <class F>
void each_part(const ElementBytes& x, size_t element_bytes, F f) {
  const size_t most = ElementBytes::kPartBytes / element_bytes * element_bytes;
  for (size_t at = 0; at < x.size(); at += most) {
    const size_t count = std::min(most, x.size() - at);
    f(std::span<const uint8_t>(x.data() + at, count), at / element_bytes);
    x.passed(count);
  }
}

// Joins the results of convert(part, index of its first element) for every part, in order.
template <class F>
ElementBytes in_parts(const ElementBytes& x, size_t element_bytes, F convert) {
  ElementBytes y;
  each_part(x, element_bytes, [&](std::span<const uint8_t> part, size_t first) { y.append(convert(part, first)); });
  return y;
}

}  // namespace nacre::tools

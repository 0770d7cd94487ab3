// Arrays as NumPy stores them: .npy (versions 1 to 3) and .npz (a zip of them, stored or deflated).
//
// Read: little-endian f2 f4 f8 i1 i2 i4 i8 u1 u4 b1, in C or Fortran order; the result is in C order. Anything else,
// and anything malformed, is one Error: files come from outside. Nothing is ever cast.
//
// An array's header is read first. A NpyCheck states what the array must be, before its elements are read. No more
// elements are read than the header declares, and none where the file is shorter than that.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/numeric/element.h"
#include "tools/base/error.h"
#include "tools/files/element_bytes.h"
#include "tools/files/input_file.h"

namespace nacre::tools {

struct NpyArray {
  ElementType type = ElementType::kNone;
  std::vector<int64_t> dims;
  ElementBytes data;       // little-endian elements in C order
  std::string place = {};  // where it was read, for errors

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t d : dims) product *= d;
    return product;
  }

  // The elements as T, which must be their type.
  template <class T>
  std::vector<T> values() const {
    require_type(Element<T>::kType);
    std::vector<T> result(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(result.data(), data.data(), result.size() * sizeof(T));
    return result;
  }

  void require_type(ElementType wanted) const;  // throws Error naming both
};

// A .npz: arrays by name, in the order of the file. The name of a member is the array's with ".npy".
using NpzArrays = std::vector<std::pair<std::string, NpyArray>>;

inline constexpr uint64_t kMostNpyBytes = kMostFileBytes;  // of a file, and of a .npz when inflated

// Throws for an array that is not what is wanted. `header`: the array without its data. `name`: in a .npz; of a .npy
// "".
using NpyCheck = std::function<void(const std::string& name, const NpyArray& header)>;

// The bytes of one .npy, in order.
struct NpyBytes {
  std::function<size_t(std::span<uint8_t> to)> read;  // fewer than asked for: the end
  std::optional<uint64_t> size;                       // of all of them, where it is known
  uint64_t most = kMostNpyBytes;
};
NpyArray read_npy(const NpyBytes& bytes, const std::string& place,
                  const std::function<void(const NpyArray&)>& check = {});

NpyArray parse_npy(std::span<const uint8_t> bytes, const std::string& place);
NpyArray read_npy(const std::string& path, const NpyCheck& check = {});
std::vector<uint8_t> npy_bytes(const NpyArray& array);
void write_npy(const std::string& path, const NpyArray& array);

NpzArrays parse_npz(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes = kMostNpyBytes);
NpzArrays read_npz(const std::string& path, const NpyCheck& check = {});
std::vector<uint8_t> npz_bytes(const NpzArrays& arrays);  // stored; the same arrays give the same bytes
void write_npz(const std::string& path, const NpzArrays& arrays);

}  // namespace nacre::tools

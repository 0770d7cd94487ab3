// Reads and writes arrays as NumPy stores them: .npy (versions 1 to 3) and .npz (a zip of .npy, stored or deflated).
//
// Reads little-endian f2 f4 f8 i1 i2 i4 i8 u1 u4 b1, in C or Fortran order, into C order. Any other or malformed file
// gives one Error, because files come from outside. Nothing is ever cast.
//
// The header of an array is read first. An NpyCheck then says whether the array is the wanted one, before its
// elements are read. A .npy file whose size contradicts its header is refused before its elements are read.
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
  std::string place = {};  // where the array was read, for errors

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t d : dims) product *= d;
    return product;
  }

  // Returns the elements as T, which must be their type.
  template <class T>
  std::vector<T> values() const {
    require_type(Element<T>::kType);
    std::vector<T> result(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(result.data(), data.data(), result.size() * sizeof(T));
    return result;
  }

  void require_type(ElementType wanted) const;  // throws Error naming both
};

// The arrays of a .npz by name, in the order of the file. The member of array NAME is NAME.npy.
using NpzArrays = std::vector<std::pair<std::string, NpyArray>>;

inline constexpr uint64_t kMostNpyBytes = kMostFileBytes;  // limit for a file, and for an inflated .npz

// Throws if an array is not the wanted one. `header` is the array without its data. `name` is its name in a .npz, ""
// for a .npy.
using NpyCheck = std::function<void(const std::string& name, const NpyArray& header)>;

// A source of the bytes of one .npy, in order.
struct NpyBytes {
  std::function<size_t(std::span<uint8_t> to)> read;  // fewer bytes than asked for mark the end
  std::optional<uint64_t> size;                       // size of the whole .npy, if known
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
std::vector<uint8_t> npz_bytes(const NpzArrays& arrays);  // members are stored; equal arrays give equal bytes
void write_npz(const std::string& path, const NpzArrays& arrays);

}  // namespace nacre::tools

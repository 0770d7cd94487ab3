// Arrays from the files that training data come in, told by their content:
//
//   .npy, .npz     tools/files/npy.h
//   IDX            MNIST's format (http://yann.lecun.com/exdb/mnist, "the IDX file format"): one array
//   CSV            one array [lines, columns] of float64; a first line that is not all numbers is the columns' names
//   any of these   compressed with gzip
//
// Whatever is malformed is one Error with the place, for CSV its line and column. Nothing is cast.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/files/npy.h"

namespace nacre::tools {

struct ArrayFile {
  enum class Format { kNpy, kNpz, kIdx, kCsv } format = Format::kNpy;
  NpzArrays arrays;                       // of a .npz by name; of others one, named ""
  std::vector<std::string> columns = {};  // of a CSV file with a line of names, else empty

  bool csv() const { return format == Format::kCsv; }
};

// `check`: of arrays that have a header, before they are read; of CSV, IDX and what gzip holds it is not asked.
ArrayFile read_array_file(const std::string& path, const NpyCheck& check = {});
ArrayFile parse_array_file(std::span<const uint8_t> bytes, const std::string& place,
                           uint64_t most_bytes = kMostNpyBytes);

// IDX: 0, 0, type, rank, rank big-endian 32-bit dims, big-endian elements.
NpyArray parse_idx(std::span<const uint8_t> bytes, const std::string& place);

// Fields are separated by ',' ';' or tab, whichever the first line has (looked for in this order), and may be quoted as
// RFC 4180 has it. Spaces around a field are not part of it, empty lines are passed over.
ArrayFile parse_csv(std::string_view text, const std::string& place);

// gzip, all members (RFC 1952).
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes);

}  // namespace nacre::tools

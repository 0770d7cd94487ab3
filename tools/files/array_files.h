// Reads arrays from the files that training data come in. The content of a file tells its format:
//
//   .npy, .npz     tools/files/npy.h
//   IDX            MNIST's format (http://yann.lecun.com/exdb/mnist, "the IDX file format"): one array
//   CSV            one array [lines, columns] of float64; a first line without a number holds the columns' names
//   any of these   compressed with gzip
//
// A malformed file gives one Error with the file's name; for CSV also with the line. Types of .npy and IDX stay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/files/npy.h"

namespace nacre::tools {

struct ArrayFile {
  enum class Format { kNpy, kNpz, kIdx, kCsv } format = Format::kNpy;
  NpzArrays arrays;                       // a .npz has arrays by name, every other file one, named ""
  std::vector<std::string> columns = {};  // names in the first line of a CSV file, or empty

  bool csv() const { return format == Format::kCsv; }
};

// Calls `check` for each array of a .npy or .npz file before its elements are read. CSV, IDX and gzip files are not
// checked.
ArrayFile read_array_file(const std::string& path, const NpyCheck& check = {});
ArrayFile parse_array_file(std::span<const uint8_t> bytes, const std::string& place,
                           uint64_t most_bytes = kMostNpyBytes);

// Reads IDX: 0, 0, type, rank, rank big-endian 32-bit dims, big-endian elements.
NpyArray parse_idx(std::span<const uint8_t> bytes, const std::string& place);

// Fields are separated by ',' ';' or tab: the first of these, in this order, that the first line has. They may be
// quoted as in RFC 4180. Spaces around a field are dropped and empty lines skipped.
ArrayFile parse_csv(std::string_view text, const std::string& place);

// Unpacks all members of a gzip file (RFC 1952).
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes);

}  // namespace nacre::tools

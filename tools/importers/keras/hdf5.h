// Reads the tree of an HDF5 file with libhdf5 in a child process.
//
// libhdf5 crashes or loops on damaged files, so it never runs in this process. A child with limits on memory and time
// reads the bytes that this process has in memory, and sends its results through a pipe. If the child crashes or is
// stopped, that is an Error. libhdf5 opens no other file: external links, soft links, external storage and virtual
// datasets are refused. All filters except deflate, shuffle and fletcher32 are refused too.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct Hdf5Dataset {
  ElementType type = ElementType::kNone;  // float16, bfloat16, float32, float64, int8, uint8, int32 or int64
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;  // little-endian, in order
  uint64_t offset = 0;         // of these bytes in the file; 0 unless it has the same bytes as one contiguous block

  int64_t elements() const;
  std::vector<float> reals() const;
};

struct Hdf5File {
  std::map<std::string, Hdf5Dataset> datasets;                                   // by path, without a '/' in front
  std::map<std::string, std::map<std::string, std::vector<std::string>>> texts;  // text attributes of groups
};

// Reads a file. Nothing is read below the groups at the top that `skipped` names.
Hdf5File read_hdf5(std::span<const uint8_t> bytes, const std::string& place, const std::vector<std::string>& skipped);

}  // namespace nacre::tools

// An HDF5 file's tree, read by libhdf5 in a child process.
//
// libhdf5 crashes and loops on damaged files, so it never runs here: a child, with limits on its memory and its time,
// reads the bytes that this process has in memory and sends what it found through a pipe. Whatever becomes of the
// child is an Error. No other file is ever opened: external links, soft links, external storage and virtual datasets
// are refused, and so is every filter but deflate, shuffle and fletcher32.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

struct Hdf5Dataset {
  ElementType type = ElementType::kNone;  // float16, bfloat16, float32, float64 and integers
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;  // little-endian, in order
  uint64_t offset = 0;         // where in the file the same bytes are; 0: in pieces, compressed or in another order

  int64_t elements() const;
  std::vector<float> reals() const;
};

struct Hdf5File {
  std::map<std::string, Hdf5Dataset> datasets;                                   // by path, without a '/' in front
  std::map<std::string, std::map<std::string, std::vector<std::string>>> texts;  // of groups: attributes that are text
};

// `skipped`: groups at the top of which nothing is read.
Hdf5File read_hdf5(std::span<const uint8_t> bytes, const std::string& place, const std::vector<std::string>& skipped);

}  // namespace nacre::tools

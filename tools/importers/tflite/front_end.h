// Tensors of a graph that no single value holds directly: complex numbers, and numbers of the audio front end.
#pragma once

#include <map>
#include <set>

#include "tools/graph/graph.h"

namespace nacre::tools::tflite {

struct Complex {
  ValueId real, imaginary;
};

// The sums of a SignalFilterBank, before their roots (signal.cc). `entries` [n, 2] is in the form that the step reads.
struct FilterSums {
  ValueId energies, entries;
  int64_t channels;
};

struct FrontEnd {
  bool holds(int tensor) const { return complexes.contains(tensor) || sums.contains(tensor); }

  std::map<int, Complex> complexes = {};  // spectrum.cc
  std::map<int, FilterSums> sums = {};    // sums of uint64 (signal.cc)
  std::set<int> signals = {};             // tensors of int16 or uint32 whose values are int32 (signal.cc)
};

}  // namespace nacre::tools::tflite

// Tensors of a graph that no single value holds directly: complex numbers, and numbers of the audio front end.
#pragma once

#include <map>
#include <set>

#include "tools/graph/graph.h"

namespace nacre::tools::tflite {

struct Complex {
  ValueId real, imaginary;
};

// The operands of a SignalFilterBank, whose sums no node made yet (signal.cc). The op signal reads `entries` [n, 2].
struct FilterSums {
  ValueId energies, entries;
  int64_t channels;
};

struct FrontEnd {
  bool holds(int tensor) const { return complexes.contains(tensor) || sums.contains(tensor); }

  std::map<int, Complex> complexes = {};  // tensors of complex numbers (spectrum.cc)
  std::map<int, FilterSums> sums = {};    // tensors of uint64 sums (signal.cc)
  std::set<int> signals = {};             // tensors of int16 or uint32 whose values are int32 (signal.cc)
};

}  // namespace nacre::tools::tflite

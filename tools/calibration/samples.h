// Samples for calibration, from files. Accepted are
//
//   a .npz                  an array per input, by the input's name (arr_0, numpy's own name, where there is one input)
//   a .npy                  where there is one input
//   a folder of .npy        NAME.npy per input, NAME as a file name; or, where there is one input and no such file,
//                           any number of files of samples, in the order of their names
//
// An array is one sample, or samples stacked on axis 0. Its numbers are what the network takes: float32 reals, or,
// for an input that the source file quantized, reals or the codes themselves. Nothing is cast unless asked for, and
// then only where no number changes. Refused with the reason: other names, types and shapes, numbers that are not
// finite or that the source's quantizer cannot hold, and, for ranges, data that are the same number everywhere.
#pragma once

#include <string>
#include <vector>

#include "tools/base/option_id.h"
#include "tools/files/npy.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Said where samples are given and nothing takes them.
inline std::string samples_not_read() {
  return option("calibrate") + ": no layer has a policy that reads samples, so they are not read";
}

struct SampleOptions {
  bool cast = false;          // number for number, as `nacre run --cast-inputs`
  bool may_be_equal = false;  // all numbers may be one: no range is made of them, as for float8
};

struct Samples {
  std::vector<NpyArray> inputs;  // per input of the graph: [count, sample...], of the input's type
  int64_t count = 0;
};

Samples read_samples(const Graph& graph, const std::string& path, const SampleOptions& options = {});

// Makes samples from arrays in the order of graph.inputs; `place` of each names it in errors.
Samples make_samples(const Graph& graph, std::vector<NpyArray> arrays, const SampleOptions& options = {});

// Dims of one sample of an input: without axis 0 where that counts rows.
std::vector<int64_t> sample_dims(const Graph& graph, const Value& input);

}  // namespace nacre::tools

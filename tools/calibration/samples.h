// Reads samples for calibration from files. `path` is one of
//
//   a .npz                  an array per input, by the input's name; a single input may be arr_0, numpy's own name
//   a .npy                  if the network has one input
//   a folder of .npy        NAME.npy per input, NAME as a file name; if a network of one input has no such file, the
//                           folder may hold any number of files of samples, which are read in the order of their names
//
// An array is one sample, or samples stacked on axis 0. It has the input's type. If the source file quantized the input
// with one scale, it holds float32 numbers or codes. No type is cast unless options.cast is set, and a cast may change
// no number. Throws an Error with the reason for other names, types and shapes, and for float32 numbers that are not
// finite or that the source's quantizer cannot hold. Unless options.may_be_equal is set, float32 numbers that are all
// equal are refused too.
#pragma once

#include <string>
#include <vector>

#include "tools/base/option_id.h"
#include "tools/files/npy.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Returns the line that tells the user that samples were given but nothing reads them.
inline std::string samples_not_read() {
  return option("calibrate") + ": no layer has a policy that reads samples, so they are not read";
}

struct SampleOptions {
  bool cast = false;          // cast numbers to the input's type; throws if one would change
  bool may_be_equal = false;  // accept samples whose numbers are all equal, if no range is made of them
};

struct Samples {
  std::vector<NpyArray> inputs;  // per input of the graph: an array [count, sample...] of the input's type
  int64_t count = 0;
};

Samples read_samples(const Graph& graph, const std::string& path, const SampleOptions& options = {});

// Makes samples from arrays in the order of graph.inputs. Errors name an array by its `place`.
Samples make_samples(const Graph& graph, std::vector<NpyArray> arrays, const SampleOptions& options = {});

// Returns the dims of one sample of an input: without axis 0 if the input is batched, or if axis 0 and the batch are 1.
std::vector<int64_t> sample_dims(const Graph& graph, const Value& input);

}  // namespace nacre::tools

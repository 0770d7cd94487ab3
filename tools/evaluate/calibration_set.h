// Chooses the samples for quantization ranges. They come from a file (if its content is the labelled set's, said()
// tells so), or from the set's data file: samples that --indices leaves out, else a part of the set, which is removed
// from it. Drawn samples are not judged.
#pragma once

#include <cstdint>
#include <string>

#include "tools/base/json.h"
#include "tools/calibration/samples.h"
#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

class CalibrationSet {
 public:
  // `file`: as for nacre convert --calibrate. If it is "", up to 200 samples of `from.data` are drawn with seed 1
  // from those that --indices does not name. If --indices names all or is not given, a fifth of `set`, at most 200
  // samples, is drawn and removed from `set`. Throws Error if `set` then holds fewer than two samples.
  CalibrationSet(const Graph& graph, const std::string& file, const SetOptions& from, LabelledSet& set);

  Samples samples(const Graph& graph, const SampleOptions& options) const;

  // Returns "ranges are from 200 samples of x.npy, which --indices does not name: they are not judged".
  const std::string& said() const { return said_; }
  Json json() const;

 private:
  void take(const Graph& graph, const SetOptions& from, LabelledSet& set);

  std::string file_, said_;
  NpzArrays data_;
  int64_t count_ = 0;
};

}  // namespace nacre::tools

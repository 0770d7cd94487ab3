// Samples for the ranges of networks that are then judged on a labelled set. They come from a file, and where that is
// the set's own it is said; else they are a part of the set, which gives them up.
#pragma once

#include <cstdint>
#include <string>

#include "tools/base/json.h"
#include "tools/calibration/samples.h"
#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

class CalibrationSet {
 public:
  // `file`: as nacre convert --calibrate takes it; "": up to 200 samples of `from.data`, drawn with seed 1. They are of
  // those that --indices does not name, or, where it names all or is not given, a fifth of `set`, which keeps the
  // others. Throws Error where there is nothing to give up.
  CalibrationSet(const Graph& graph, const std::string& file, const SetOptions& from, LabelledSet& set);

  Samples samples(const Graph& graph, const SampleOptions& options) const;

  // "ranges are from 200 samples of x.npy, which --indices does not name: they are not judged"
  const std::string& said() const { return said_; }
  Json json() const;

 private:
  void take(const Graph& graph, const SetOptions& from, LabelledSet& set);

  std::string file_, said_;
  NpzArrays data_;
  int64_t count_ = 0;
};

}  // namespace nacre::tools

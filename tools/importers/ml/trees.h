// Declares the decision trees of ONNX files (ai.onnx.ml), and the arrays that the engine's op tree_ensemble reads
// (engine/ops/tree_ensemble.h). Private to tools/importers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

enum Mode { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kModes };  // a node's test, by its number in TreeEnsemble

// A node that is no leaf. The next node is `left` if the test holds, else `right`. In both fields a number that is not
// negative is the index of a split; ~i is leaf i.
struct Split {
  int32_t feature = 0, turns = 0;
  float threshold = 0;
  int64_t left = 0, right = 0;

  void set_turns(Mode mode, double t, bool missing);  // `missing`: NaN goes left
};
struct Leaf {
  std::vector<std::pair<int64_t, double>> weights;  // pairs of target and weight
};
struct Trees {
  std::vector<Split> splits;
  std::vector<Leaf> leaves;
  std::vector<int64_t> roots;
};

struct Forest {
  // operands and attributes of the op tree_ensemble
  std::vector<int32_t> nodes, roots, leaves;
  std::vector<float> thresholds, weights;
  int64_t targets = 0, depth = 0;
  uint32_t aggregate = 0;

  bool average = false;  // the sum is divided by the number of trees
  std::vector<float> base;
  std::string post_transform = "NONE";
};

// forest.cc: writes the operands of tree_ensemble for `trees`. Refuses loops, leaves without weights, and leaves whose
// targets are outside of the outputs.
void write_arrays(const Source& source, const Trees& trees, Forest& forest);

// trees.cc: reads the trees of TreeEnsembleClassifier (`of` is "class") or TreeEnsembleRegressor ("target"), with
// `targets` outputs and `features` inputs.
Forest read_listed_trees(Import& import, const Source& source, const std::string& of, int64_t targets,
                         int64_t features);
// Reads the trees of TreeEnsemble (opset 5).
Forest read_trees(Import& import, const Source& source, int64_t features);

// Return the numbers of the list attribute `key`, or of the tensor attribute `key`_as_tensor. Return none if neither is
// there. listed_texts reads the strings of the list `key` alone.
std::vector<double> listed_numbers(const Source& source, const std::string& key);
std::vector<float> listed_floats(const Source& source, const std::string& key);
std::vector<std::string> listed_texts(const Source& source, const char* key);

}  // namespace nacre::tools::onnx_import

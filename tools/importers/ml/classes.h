// Shared by classifiers and regressors of ai.onnx.ml: rows that they read, their classes, transforms of scores.
// Private to tools/importers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

// Input `index` as float32 [rows, features], whatever numbers it has: a vector is one row.
OperandPtr rows_of(Import& import, const Source& source, int index = 0);
// A value that steps of the current node made, as an operand of a formula.
OperandPtr made_operand(Import& import, ValueId id);
// Input `index` as float32, of its own shape.
Term real_input(Formula& f, const Source& source, int index = 0);

// Integers that are float32 numbers; refuses those beyond 2^24.
std::vector<float> exact_floats(const Source& source, const std::vector<int64_t>& numbers);

// Labels are integers, or names. No tensor holds names: a network gives the index of one, and its model file lists
// them under the key "labels".
struct Classes {
  std::vector<int64_t> labels;
  std::vector<std::string> names;

  size_t count() const { return names.empty() ? labels.size() : names.size(); }
};
Classes read_classes(const Source& source, const char* labels, const char* names);
void list_names(Import& import, const Source& source, const std::vector<std::string>& names);

// The label of each row, int64: `index` is of the type int64.
Term label_at(Formula& f, const Source& source, const Classes& classes, const Term& index);
// Label of the column with the largest score; among equal scores the first column counts.
Term label_of_largest(Formula& f, const Source& source, const Classes& classes, const Term& scores);
// Label of one of two classes: the second where the score [rows, 1] is above `least`.
Term label_above(Formula& f, const Source& source, const Classes& classes, const Term& score, float least);

// Scores [rows, columns] after a post_transform: onnxruntime, core/providers/cpu/ml/ml_common.h.
Term transformed(Formula& f, const Source& source, const Term& scores, const std::string& transform);

}  // namespace nacre::tools::onnx_import

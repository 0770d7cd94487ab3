// Declares functions that the operators of ai.onnx.ml share: they read rows and classes, and transform scores.
// Private to tools/importers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

// Returns input `index` as float32 [rows, features], whatever numbers it holds. A vector is one row.
OperandPtr rows_of(Import& import, const Source& source, int index = 0);
// Returns a value of the graph, which the current ONNX node made, as an operand of a formula.
OperandPtr made_operand(Import& import, ValueId id);
// Returns input `index` as float32, in its own shape.
Term real_input(Formula& f, const Source& source, int index = 0);

// Returns the integers as float32. Refuses integers beyond +-2^24, because float32 does not hold all of them exactly.
std::vector<float> exact_floats(const Source& source, const std::vector<int64_t>& numbers);

// The labels of classes, which are integers or names. No tensor holds names. A network gives the index of a name
// instead. list_names lists the names in the model's metadata: key "labels", or "labels.<node>" for a later classifier.
struct Classes {
  std::vector<int64_t> labels;
  std::vector<std::string> names;

  size_t count() const { return names.empty() ? labels.size() : names.size(); }
};
Classes read_classes(const Source& source, const char* labels, const char* names);
void list_names(Import& import, const Source& source, const std::vector<std::string>& names);

// Returns the label of each row as int64, or `index` itself if classes have names. `index` (int64) numbers the classes.
Term label_at(Formula& f, const Source& source, const Classes& classes, const Term& index);
// Returns the label of the column with the largest score. Among equal scores the first column counts.
Term label_of_largest(Formula& f, const Source& source, const Classes& classes, const Term& scores);
// Returns the label of one of two classes: the second if the score [rows, 1] is above `least`, else the first.
Term label_above(Formula& f, const Source& source, const Classes& classes, const Term& score, float least);

// Applies a post_transform to scores [rows, columns] as onnxruntime does (core/providers/cpu/ml/ml_common.h).
Term transformed(Formula& f, const Source& source, const Term& scores, const std::string& transform);

}  // namespace nacre::tools::onnx_import

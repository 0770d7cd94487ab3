// Writes an evaluation as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/base/print.h"
#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

// Titles, and one row per model. The first cell is the model's file.
struct EvalCells {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;
};
EvalCells evaluation_cells(const Evaluation& evaluation, const Metric& metric, const std::string& name);

// Returns the notes and the table.
std::string evaluation_text(const Evaluation& evaluation, const Metric& metric, const std::string& name);

Json evaluation_json(const Evaluation& evaluation, const Metric& metric, const std::string& name);

}  // namespace nacre::tools

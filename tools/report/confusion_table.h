// Writes the confusions of a classifier as a matrix, or with many classes as a list of the most frequent pairs.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/metrics.h"
#include "tools/report/html.h"

namespace nacre::tools {

// With more classes than this only the pairs are listed.
inline constexpr size_t kMostMatrixClasses = 40;

// `names` holds the class names of the model; a class without a name is shown by its number.
void add_confusion(Html& page, const Confusion& confusion, const std::string& model,
                   const std::vector<std::string>& names);

}  // namespace nacre::tools

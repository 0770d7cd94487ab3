// What a classifier takes its samples for: a matrix, and the pairs of classes that it confuses most.
#pragma once

#include <string>

#include "tools/evaluate/metrics.h"
#include "tools/report/html.h"

namespace nacre::tools {

// With more classes than a page can show only the pairs are listed.
inline constexpr size_t kMostMatrixClasses = 40;

void add_confusion(Html& page, const Confusion& confusion, const std::string& model);

}  // namespace nacre::tools

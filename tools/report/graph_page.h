// A model as one HTML page: the graph of each of its programs with the memory plan beside it, and of every step what it
// is, what it reads and writes, how its codes are scaled and how its weights are distributed.
#pragma once

#include <cstddef>
#include <string>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Most steps, of all programs together, that a page shows in pictures and one by one. Bounds the size of the page, with
// kMostPictureLanes (picture/picture.h) and kMostShownName (picture/style.h). The page counts the steps that it leaves
// out.
inline constexpr size_t kMostPageSteps = 2000;

struct GraphPageOptions {
  std::string name;     // of the model
  std::string kernels;  // the target whose kernels are named, "": the host's
};

// Makes the page of a model. Equal models give equal pages.
std::string graph_page(const LoadedModel& model, const GraphPageOptions& options);

}  // namespace nacre::tools

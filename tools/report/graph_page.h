// Makes a model's HTML page: the graph of each program with the memory plan beside it. For every step it shows its
// op, the tensors that it reads and writes, the scales of its codes and the distribution of its weights.
#pragma once

#include <cstddef>
#include <string>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

// The most steps, of all programs together, that a page shows in pictures and one by one. This bounds the page's
// size, together with kMostPictureLanes (picture/picture.h) and kMostShownName (picture/style.h). The page counts the
// steps that it leaves out.
inline constexpr size_t kMostPageSteps = 2000;

struct GraphPageOptions {
  std::string name;     // of the model
  std::string kernels;  // the target whose kernels are named, "": the host's
};

// Makes the page of a model. Equal models and options give equal pages.
std::string graph_page(const LoadedModel& model, const GraphPageOptions& options);

}  // namespace nacre::tools

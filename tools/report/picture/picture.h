// A program as a picture: the graph of its steps from top to bottom, and beside it, row by row,
// which bytes of the arena hold what while those steps run. SVG; pointing at anything tells all
// about it.
#pragma once

#include <cstddef>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// A larger picture would help nobody, and takes long: lanes are rows that an edge passes.
inline constexpr size_t kMostPictureSteps = 2000, kMostPictureLanes = 40'000;

struct PictureOptions {
  std::string arrow = "arrow";  // the id of the arrow head, for pages with several pictures
  std::string link = "";        // "a" makes every step lead to the section "a7" of its page; "": none
  std::string label = "";       // for screen readers; "": `name`
  bool style = true;            // with its style sheet; else the page has it, once: Html::add_style(picture_style())
};

// Throws Error(kUnsupported) where the program is larger. `name` stands on top.
std::string picture(const ProgramReport& report, const std::string& name, const PictureOptions& options = {});

}  // namespace nacre::tools

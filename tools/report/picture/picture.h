// Draws a program as SVG: the graph of its steps from top to bottom, and beside each row the tensors that fill the
// arena's bytes then. Pointing at an element shows all about it.
#pragma once

#include <cstddef>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// A larger picture would not be readable, and takes long to draw. A lane is a row that an edge passes.
inline constexpr size_t kMostPictureSteps = 2000, kMostPictureLanes = 40'000;

struct PictureOptions {
  std::string arrow = "arrow";  // the id of the arrow head, for pages with several pictures
  std::string link = "";        // "a": every step links to the section "a7" of its page; "": no links
  std::string label = "";       // for screen readers; "": `name`
  // includes the style sheet; else the page adds it once: Html::add_style(picture_style())
  bool style = true;
};

// Throws Error(kUnsupported) if the program is larger. `name` is the title.
std::string picture(const ProgramReport& report, const std::string& name, const PictureOptions& options = {});

}  // namespace nacre::tools

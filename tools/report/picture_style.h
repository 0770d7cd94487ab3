// Colours, fonts and words that the parts of the picture share.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

inline constexpr double kOpFont = 13, kSmallFont = 10.5;
inline constexpr double kBold = 1.12;  // bold text is wider than text_width says

// A style sheet and the definition of the arrow head, whose id is `arrow`.
std::string picture_style(const std::string& arrow);
std::string arrow_head(const std::string& arrow);

// As many characters as fit into `width` pixels, shortened in the middle.
std::string fit(const std::string& text, double width, double font_size);

std::string short_count(uint64_t count);  // "320 k", "2.66 M"

// "1×25×5×64 int8"
std::string short_shape(const ProgramReport& report, uint32_t tensor);

// Everything about a tensor, on a few lines.
std::string tensor_title(const ProgramReport& report, uint32_t tensor);

// The class that colours a step's box, by its layer's policy, and what the legend calls it. Conversions have a colour
// of their own, whatever their layer.
std::string step_class(const ProgramReport& report, const ReportStep& step);
std::string step_class_words(const ProgramReport& report, const ReportStep& step);

// Layers of which the model lists a step that runs in another type than the policy says: their boxes are dashed.
std::set<uint32_t> layers_that_fall_back(const ProgramReport& report);

// The lines of a model's metadata that list these steps: "layer (op): wants X, runs in Y: reason".
std::vector<std::string> fallbacks_of(const LoadedModel& model);

}  // namespace nacre::tools

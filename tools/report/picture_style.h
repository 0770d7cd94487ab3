// Colours, fonts and words that the parts of the picture share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/report/program_report.h"

namespace nacre::tools {

inline constexpr double kOpFont = 13, kSmallFont = 10.5;
inline constexpr double kBold = 1.12;  // bold text is wider than text_width says

extern const char* const kPictureStyle;
extern const char* const kArrowHead;

// As many characters as fit into `width` pixels, shortened in the middle.
std::string fit(const std::string& text, double width, double font_size);

std::string short_count(uint64_t count);  // "320 k", "2.66 M"

// "1×25×5×64 int8"
std::string short_shape(const ProgramReport& report, uint32_t tensor);

// Everything about a tensor, on a few lines.
std::string tensor_title(const ProgramReport& report, uint32_t tensor);

// The class that colours a step's box, by its layer's policy, and what the legend calls it.
std::string step_class(const ProgramReport& report, const ReportStep& step);
std::string step_class_words(const ProgramReport& report, const ReportStep& step);

}  // namespace nacre::tools

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

const char* picture_style();                    // the style sheet of pictures, which applies inside them only
std::string arrow_head(const std::string& id);  // the definition of the arrow head

// Shortens a text in the middle to as many characters as fit into `width` pixels.
std::string fit(const std::string& text, double width, double font_size);

// Shortens in the middle a name from the file, whose length is not bounded, for pictures and pages.
inline constexpr size_t kMostShownName = 200;
std::string shown_name(const std::string& name);

std::string short_policy(const Policy& policy);  // "int8/static": without "_from_float32"

std::string short_count(uint64_t count);  // "320 k", "2.66 M"

// Returns "1×25×5×64 int8".
std::string short_shape(const ProgramReport& report, uint32_t tensor);

// Returns lines about a tensor: name, type, shape, bytes, place in the arena, the tensor it is part of, its quantizer.
std::string tensor_title(const ProgramReport& report, uint32_t tensor);

// Returns the CSS class that colours a step's box, by its layer's policy, and its words in the legend. Conversions
// have a colour of their own in every layer.
std::string step_class(const ProgramReport& report, const ReportStep& step);
std::string step_class_words(const ProgramReport& report, const ReportStep& step);

// Returns the layers with a step that the model lists as running in another type than the policy says. Their boxes
// are dashed.
std::set<uint32_t> layers_that_fall_back(const ProgramReport& report);

// Returns the lines of a model's metadata about steps that run in another type: "layer (op): wants X, runs in Y:
// reason".
std::vector<std::string> fallbacks_of(const LoadedModel& model);

}  // namespace nacre::tools

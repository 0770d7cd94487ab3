// Writes parts of a report: how far each layer is from the reference's, and how long each takes.
#pragma once

#include <string>
#include <vector>

#include "tools/report/html.h"
#include "tools/report/html_report.h"

namespace nacre::tools {

// Returns "equal", "not finite" or "29.1 dB".
std::string decibel_text(const ErrorMeasure& error);

// Returns the name of the layer whose step makes a compared tensor, or the tensor's name if the step is of no layer.
std::string compared_name(const ProgramReport& program, const ComparedTensor& tensor);

// Returns the tensors that differ, as indices into Comparison::tensors, the lowest SQNR first.
std::vector<size_t> worst_first(const Comparison& comparison);

// Returns the SQNR of a full bar: the least of 40, 60, 80, ... dB that is no less than any finite SQNR, at most 160.
double full_bar_decibels(const Comparison& comparison);

void add_errors(Html& page, const std::vector<ReportedModel>& models);
// Adds nothing if a model was not timed: either all models are timed or none.
void add_times(Html& page, const std::vector<ReportedModel>& models);

}  // namespace nacre::tools

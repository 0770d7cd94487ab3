// Parts of a report: how far each layer is from the reference's, and how long each takes.
#pragma once

#include <string>
#include <vector>

#include "tools/report/html.h"
#include "tools/report/html_report.h"

namespace nacre::tools {

// "equal", "not finite", "29.1 dB"
std::string decibel_text(const ErrorMeasure& error);

// The layer that a compared tensor is the result of; of none, the tensor's name.
std::string compared_name(const ProgramReport& program, const ComparedTensor& tensor);

// The tensors that differ, the one with the most noise first: indices into Comparison::tensors.
std::vector<size_t> worst_first(const Comparison& comparison);

// SQNR of a full bar: the least of 40, 60, 80, ... dB that is no less than any finite SQNR, at most 160.
double full_bar_decibels(const Comparison& comparison);

void add_errors(Html& page, const std::vector<ReportedModel>& models);
// Nothing where a model was not timed: all are, or none.
void add_times(Html& page, const std::vector<ReportedModel>& models);

}  // namespace nacre::tools

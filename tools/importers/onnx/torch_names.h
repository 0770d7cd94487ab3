// Names in files of torch.export: a call's result has the name of its operator, and a count from the second on
// ("view_1"). Private to torch.cc.
#pragma once

#include <string>

namespace nacre::tools::onnx_import {

// "view_1" -> "view"
std::string without_count(const std::string& name);

// Results of these hold elements of their operand, each once. The exporter calls a step within a call "val".
bool moves_only(const std::string& result);
// Results of these hold what they hold whatever the parameters are: zeros, a tensor in the source, a number of rows.
bool is_made_of_nothing(const std::string& result);
// Results of these may be a constant of the module under another name.
bool may_be_alias(const std::string& result);

// The text of a call of an LSTM, a GRU or an RNN: its steps put gates into the order of ONNX.
bool is_recurrent(const std::string& call);
// Within such a call a step may have changed numbers that a node `op_type` of it reads: "add(x, w, alpha=2)" has 2 w.
bool steps_may_compute(const std::string& call, const std::string& op_type);

}  // namespace nacre::tools::onnx_import

// Names in files of torch.export. A call's result has the name of its operator, with a count from the second result
// on ("view_1"). Private to torch.cc.
#pragma once

#include <string>

namespace nacre::tools::onnx_import {

// "view_1" -> "view"
std::string without_count(const std::string& name);

// Returns whether results of that name hold each element of their operand once. The exporter calls a step within a
// call "val".
bool moves_only(const std::string& result);
// Returns whether results of that name do not depend on parameters: zeros, a tensor in the source, a number of rows.
bool is_made_of_nothing(const std::string& result);
// Returns whether results of that name may be a constant of the module under another name.
bool may_be_alias(const std::string& result);

// Returns whether the text is a call of an LSTM, a GRU or an RNN. The steps of such a call put gates into ONNX's
// order.
bool is_recurrent(const std::string& call);
// Returns whether a step within the call may have changed the numbers that its node `op_type` reads: "add(x, w,
// alpha=2)" has 2 w.
//
bool steps_may_compute(const std::string& call, const std::string& op_type);

}  // namespace nacre::tools::onnx_import

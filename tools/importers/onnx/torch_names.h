// Judges names in files of torch.export. A call's result has the name of its operator, with a count from the second
// result on ("view_1"). Private to torch.cc.
#pragma once

#include <string>

namespace nacre::tools::onnx_import {

// Returns the name without its count: "view" for "view_1".
std::string without_count(const std::string& name);

// Returns whether results of that name hold elements of their operand, only moved or cast. "val" counts too: the
// exporter gives this name to results within a call.
bool moves_only(const std::string& result);
// Returns whether results of that name do not depend on parameters: zeros, a literal tensor, a symbolic size.
bool is_made_of_nothing(const std::string& result);
// Returns whether results of that name may be a constant of the module under another name.
bool may_be_alias(const std::string& result);

// Returns whether the text is a call of an LSTM, a GRU or an RNN. The steps of such a call put gates into ONNX's
// order.
bool is_recurrent(const std::string& call);
// Returns whether the call may have changed the numbers of a constant before its node `op_type` reads them. For
// example, "add(x, w, alpha=2)" adds 2 w.
// The function judges by the call's text and the operator.
bool steps_may_compute(const std::string& call, const std::string& op_type);

}  // namespace nacre::tools::onnx_import

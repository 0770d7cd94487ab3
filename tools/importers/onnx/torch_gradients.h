// Handles gradients that a PyTorch module does not take, which the calls in torch.export's files show:
//
//   embedding(w, ids, padding_idx=p)              dL/dw[p] = 0
//   embedding(w, ids, scale_grad_by_freq=True)    dL/dw[i] is divided by the count of i in ids
//   x.detach()                                    dL/dx = 0
#pragma once

#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/importers/importer.h"

namespace nacre::tools::onnx_import {

// Changes a model that is to be trained. Replaces w[ids] by where(ids == p, c, w[ids]), with c the numbers of w[p], if
// only lookups with this p read w. Throws for the other cases unless ImportOptions::ignored holds the setting's name.
// Returns notes for the user on a file without calls, which does not state these facts. `name` is the file's name.
std::vector<std::string> keep_gradients(::onnx::ModelProto& model, const std::string& name,
                                        const ImportOptions& options);

}  // namespace nacre::tools::onnx_import

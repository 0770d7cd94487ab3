// Gradients that a PyTorch module does not take, by the calls in files of torch.export:
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

// For a graph that is to be trained: where(ids == p, c, w[ids]) in the place of w[ids], c the numbers of w[p], where
// nothing else reads w. Throws for the others, by a name that ImportOptions::ignored goes on without. Returns what a
// file without calls does not tell, for the user. `name`: of the file.
std::vector<std::string> keep_gradients(::onnx::ModelProto& model, const std::string& name,
                                        const ImportOptions& options);

}  // namespace nacre::tools::onnx_import

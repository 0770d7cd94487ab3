// Declares the tables of operators, which ops/<subject>.cc and ml/<subject>.cc define. Private to tools/importers.
#pragma once

#include <span>
#include <string>

#include "engine/base/tensor.h"

namespace nacre::tools::onnx_import {

class Import;
class Source;

// Names of domains, and an entry of the tables: an operator and the function that imports it. The function reads the
// node, adds nodes to the graph and gives the outputs.
inline constexpr const char *kMicrosoft = "com.microsoft", *kMl = "ai.onnx.ml", *kPreview = "ai.onnx.preview",
                            *kPreviewTraining = "ai.onnx.preview.training";
struct OperatorImporter {
  const char* op;
  void (*run)(Import& import, const Source& source);
  const char* domain = "";
};

// Declares the table of each subject, <subject>_importers(). tools/importers/meson.build lists the subjects and
// writes the included file.
#define NACRE_ONNX_SUBJECT(subject) std::span<const OperatorImporter> subject##_importers();
#include "tools/importers/onnx_subjects.inc"
#undef NACRE_ONNX_SUBJECT

// ops/scatter.cc: scatters that put numbers at places that are known at run time.
void put_in_cache_at_run_time(Import& import, const Source& source);  // TensorScatter
void put_elements_at_run_time(Import& import, const Source& source);  // ScatterElements without a sum
void put_rows_at_run_time(Import& import, const Source& source);      // ScatterND without a sum
// ops/sequence.cc: refuses sequences as inputs of other operators.
void check_sequences(const Source& source);
// ops/volume.cc: Conv and the pools over an input of rank 5.
void conv_volume(Import& import, const Source& source);
void pool_volume(Import& import, const Source& source);
// ops/scaled.cc: QuantizeLinear and DequantizeLinear whose scale or zero point is computed.
bool has_scale_of_run_time(const Source& source);
void quantize_at_run_time(Import& import, const Source& source, ElementType codes);
void dequantize_at_run_time(Import& import, const Source& source);
// ops/integer.cc: operators on whole numbers of run time. find_step_on_whole finds the importer. wider_type returns
// the type that integers are computed in, which is their own for int32 and int64. cast_by_way_of imports a Cast to
// `to` that takes two steps.
const OperatorImporter* find_step_on_whole(const std::string& op);
ElementType wider_type(ElementType type);
void cast_by_way_of(Import& import, const Source& source, ElementType between, ElementType to);
const OperatorImporter* find_importer(const std::string& op, const std::string& domain = "");

}  // namespace nacre::tools::onnx_import

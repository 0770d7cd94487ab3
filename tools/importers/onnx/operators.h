// The tables of the ONNX importer: one function per operator, in ops/<subject>.cc. Private to tools/importers.
#pragma once

#include <span>
#include <string>

#include "engine/base/tensor.h"

namespace nacre::tools::onnx_import {

class Import;
class Source;

// How operators are imported. A function reads the node and calls append() and give().
inline constexpr const char *kMicrosoft = "com.microsoft", *kMl = "ai.onnx.ml", *kPreview = "ai.onnx.preview",
                            *kPreviewTraining = "ai.onnx.preview.training";
struct OperatorImporter {
  const char* op;
  void (*run)(Import& import, const Source& source);
  const char* domain = "";
};

// The table of each subject: <subject>_importers(). tools/importers/meson.build lists the subjects and writes the file.
#define NACRE_ONNX_SUBJECT(subject) std::span<const OperatorImporter> subject##_importers();
#include "tools/importers/onnx_subjects.inc"
#undef NACRE_ONNX_SUBJECT

// ops/scatter.cc: scatters that put numbers at places of run time.
void put_in_cache_at_run_time(Import& import, const Source& source);  // TensorScatter
void put_elements_at_run_time(Import& import, const Source& source);  // ScatterElements without a sum
void put_rows_at_run_time(Import& import, const Source& source);      // ScatterND without a sum
// ops/sequence.cc: refuses other operators on sequences.
void check_sequences(const Source& source);
// ops/volume.cc: Conv and the pools over an input of rank 5.
void conv_volume(Import& import, const Source& source);
void pool_volume(Import& import, const Source& source);
// ops/scaled.cc: QuantizeLinear and DequantizeLinear whose scale or zero point is computed.
bool has_scale_of_run_time(const Source& source);
void quantize_at_run_time(Import& import, const Source& source, ElementType codes);
void dequantize_at_run_time(Import& import, const Source& source);
// ops/integer.cc: on whole numbers of run time; the type in which integers of others are computed with, their own
// of int32 and int64; a Cast to `to` that no step makes at once.
const OperatorImporter* find_step_on_whole(const std::string& op);
ElementType wider_type(ElementType type);
void cast_by_way_of(Import& import, const Source& source, ElementType between, ElementType to);
const OperatorImporter* find_importer(const std::string& op, const std::string& domain = "");

}  // namespace nacre::tools::onnx_import

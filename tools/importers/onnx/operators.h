// The tables of the ONNX importer: one function per operator, in ops/<subject>.cc. Private to tools/importers.
#pragma once

#include <span>
#include <string>

#include "engine/base/tensor.h"

namespace nacre::tools::onnx_import {

class Import;
class Source;

// How operators are imported. A function reads the node and calls append() and give().
struct OperatorImporter {
  const char* op;
  void (*run)(Import& import, const Source& source);
};
std::span<const OperatorImporter> window_importers();      // ops/window.cc: Conv, pools
std::span<const OperatorImporter> dense_importers();       // ops/dense.cc: Gemm, MatMul
std::span<const OperatorImporter> pointwise_importers();   // ops/pointwise.cc
std::span<const OperatorImporter> reduce_importers();      // ops/reduce.cc: softmax, norms, means
std::span<const OperatorImporter> select_importers();      // ops/select.cc: comparisons, Where
std::span<const OperatorImporter> recurrent_importers();   // ops/recurrent.cc: LSTM, GRU
std::span<const OperatorImporter> shape_importers();       // ops/shape.cc: reshape family, Transpose, Shape
std::span<const OperatorImporter> resize_importers();      // ops/resize.cc: Resize, Upsample
std::span<const OperatorImporter> transposed_importers();  // ops/transposed.cc: ConvTranspose
std::span<const OperatorImporter> space_importers();       // ops/space.cc: DepthToSpace, SpaceToDepth
std::span<const OperatorImporter> move_importers();        // ops/move.cc: Concat, Pad, Slice, Split
std::span<const OperatorImporter> quantize_importers();    // ops/quantize.cc: Q, DQ
std::span<const OperatorImporter> cast_importers();        // ops/cast.cc: Cast, CastLike, BitCast
std::span<const OperatorImporter> qlinear_importers();     // ops/qlinear.cc: QLinearConv, QLinearMatMul
std::span<const OperatorImporter> dynamic_importers();     // ops/dynamic.cc: DynamicQuantizeLinear and its readers
std::span<const OperatorImporter> constant_importers();    // ops/constant.cc: on constants only
std::span<const OperatorImporter> fused_importers();       // ops/fused.cc: onnxruntime's without a domain
std::span<const OperatorImporter> formula_importers();     // ops/formula.cc: activations that are formulas
std::span<const OperatorImporter> inverse_importers();     // ops/inverse.cc: Atan, Asin, Acosh, ..
std::span<const OperatorImporter> norm_importers();        // ops/norm.cc: normalizations that are formulas
std::span<const OperatorImporter> attention_importers();   // ops/attention.cc
std::span<const OperatorImporter> loss_importers();        // ops/loss.cc
std::span<const OperatorImporter> place_importers();       // ops/places.cc: gathers, scatters by stored indices
std::span<const OperatorImporter> sample_importers();      // ops/sample.cc: grids, Col2Im, LpPool, CenterCropPad
std::span<const OperatorImporter> region_importers();      // ops/regions.cc: RoiAlign, DeformConv
std::span<const OperatorImporter> signal_importers();      // ops/signal.cc: windows, DFT, STFT, sums along axes
std::span<const OperatorImporter> einsum_importers();      // ops/einsum.cc
std::span<const OperatorImporter> random_importers();      // ops/random.cc
std::span<const OperatorImporter> unrolled_importers();    // ops/unrolled.cc: RNN, TopK, LinearAttention
std::span<const OperatorImporter> sequence_importers();    // ops/sequence.cc: SequenceAt, ConcatFromSequence, ..
std::span<const OperatorImporter> gram_importers();        // ml/grams.cc: TfIdfVectorizer
// Operators of the domain com.microsoft:
std::span<const OperatorImporter> microsoft_qlinear_importers();   // ops/qlinear.cc
std::span<const OperatorImporter> microsoft_dynamic_importers();   // ops/dynamic.cc
std::span<const OperatorImporter> microsoft_lstm_importers();      // ops/dynamic_lstm.cc
std::span<const OperatorImporter> microsoft_block_importers();     // ops/block.cc: MatMulNBits
std::span<const OperatorImporter> microsoft_fused_importers();     // ops/fused.cc
std::span<const OperatorImporter> microsoft_quantize_importers();  // ops/quantize.cc
std::span<const OperatorImporter> microsoft_head_importers();      // ops/heads.cc: attention
// Operators of the domain ai.onnx.ml:
std::span<const OperatorImporter> ml_importers();       // ml/features.cc: features and labels
std::span<const OperatorImporter> ml_svm_importers();   // ml/svm.cc: linear models, support vectors
std::span<const OperatorImporter> ml_tree_importers();  // ml/tree_ensembles.cc
// Operators of the domain ai.onnx.preview:
std::span<const OperatorImporter> preview_importers();  // ops/flex_attention.cc
// Operators of the domain ai.onnx.preview.training:
std::span<const OperatorImporter> training_importers();  // ops/training.cc: Momentum, Adam, Adagrad
// ops/put.cc: scatters that put numbers at places of run time.
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

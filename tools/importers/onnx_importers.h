// The tables of the ONNX importer: one function per operator, in onnx_ops_<subject>.cc. Private to tools/importers.
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
std::span<const OperatorImporter> window_importers();     // onnx_ops_window.cc: Conv, pools
std::span<const OperatorImporter> dense_importers();      // onnx_ops_dense.cc: Gemm, MatMul
std::span<const OperatorImporter> pointwise_importers();  // onnx_ops_pointwise.cc
std::span<const OperatorImporter> reduce_importers();     // onnx_ops_reduce.cc: softmax, norms, means
std::span<const OperatorImporter> select_importers();     // onnx_ops_select.cc: comparisons, Where
std::span<const OperatorImporter> recurrent_importers();  // onnx_ops_recurrent.cc: LSTM, GRU
std::span<const OperatorImporter> shape_importers();      // onnx_ops_shape.cc: reshape family, Transpose, Shape
std::span<const OperatorImporter> resize_importers();     // onnx_ops_resize.cc: Resize, Upsample
std::span<const OperatorImporter> transposed_importers();  // onnx_ops_transposed.cc: ConvTranspose
std::span<const OperatorImporter> space_importers();       // onnx_ops_space.cc: DepthToSpace, SpaceToDepth
std::span<const OperatorImporter> move_importers();       // onnx_ops_move.cc: Concat, Pad, Slice, Split
std::span<const OperatorImporter> quantize_importers();   // onnx_ops_quantize.cc: Q, DQ
std::span<const OperatorImporter> cast_importers();       // onnx_ops_cast.cc: Cast, CastLike, BitCast
std::span<const OperatorImporter> qlinear_importers();    // onnx_ops_qlinear.cc: QLinearConv, QLinearMatMul
std::span<const OperatorImporter> dynamic_importers();    // onnx_ops_dynamic.cc: DynamicQuantizeLinear and its readers
std::span<const OperatorImporter> constant_importers();   // onnx_ops_constant.cc: on constants only
std::span<const OperatorImporter> fused_importers();      // onnx_ops_fused.cc: onnxruntime's without a domain
std::span<const OperatorImporter> formula_importers();    // onnx_ops_formula.cc: activations that are formulas
std::span<const OperatorImporter> inverse_importers();    // onnx_ops_inverse.cc: Atan, Asin, Acosh, ..
std::span<const OperatorImporter> norm_importers();       // onnx_ops_norm.cc: normalizations that are formulas
std::span<const OperatorImporter> attention_importers();  // onnx_ops_attention.cc
std::span<const OperatorImporter> loss_importers();       // onnx_ops_loss.cc
std::span<const OperatorImporter> place_importers();      // onnx_ops_places.cc: gathers, scatters by stored indices
std::span<const OperatorImporter> sample_importers();     // onnx_ops_sample.cc: grids, Col2Im, LpPool, CenterCropPad
std::span<const OperatorImporter> region_importers();     // onnx_ops_regions.cc: RoiAlign, DeformConv
std::span<const OperatorImporter> signal_importers();     // onnx_ops_signal.cc: windows, DFT, STFT, sums along axes
std::span<const OperatorImporter> einsum_importers();     // onnx_ops_einsum.cc
std::span<const OperatorImporter> random_importers();     // onnx_ops_random.cc
std::span<const OperatorImporter> unrolled_importers();   // onnx_ops_unrolled.cc: RNN, TopK, LinearAttention
std::span<const OperatorImporter> sequence_importers();   // onnx_ops_sequence.cc: SequenceAt, ConcatFromSequence, ..
std::span<const OperatorImporter> gram_importers();       // onnx_ops_grams.cc: TfIdfVectorizer
// Of the domain com.microsoft:
std::span<const OperatorImporter> microsoft_qlinear_importers();  // onnx_ops_qlinear.cc
std::span<const OperatorImporter> microsoft_dynamic_importers();  // onnx_ops_dynamic.cc
std::span<const OperatorImporter> microsoft_lstm_importers();     // onnx_ops_dynamic_lstm.cc
std::span<const OperatorImporter> microsoft_block_importers();    // onnx_ops_block.cc: MatMulNBits
std::span<const OperatorImporter> microsoft_fused_importers();    // onnx_ops_fused.cc
std::span<const OperatorImporter> microsoft_quantize_importers();  // onnx_ops_quantize.cc
// Of the domain ai.onnx.ml:
std::span<const OperatorImporter> ml_importers();       // onnx_ops_ml.cc: features and labels
std::span<const OperatorImporter> ml_svm_importers();   // onnx_ops_svm.cc: linear models, support vectors
std::span<const OperatorImporter> ml_tree_importers();  // onnx_ops_tree.cc
// Of the domain ai.onnx.preview:
std::span<const OperatorImporter> preview_importers();  // onnx_ops_flex_attention.cc
// Of the domain ai.onnx.preview.training:
std::span<const OperatorImporter> training_importers();  // onnx_ops_training.cc: Momentum, Adam, Adagrad
// onnx_ops_sequence.cc: refuses other operators on sequences.
void check_sequences(const Source& source);
// onnx_ops_volume.cc: Conv and the pools over an input of rank 5.
void conv_volume(Import& import, const Source& source);
void pool_volume(Import& import, const Source& source);
// onnx_ops_scaled.cc: QuantizeLinear and DequantizeLinear whose scale or zero point is computed.
bool has_scale_of_run_time(const Source& source);
void quantize_at_run_time(Import& import, const Source& source, ElementType codes);
void dequantize_at_run_time(Import& import, const Source& source);
// onnx_ops_integer.cc: on whole numbers of run time; the type in which integers of others are computed with, their own
// of int32 and int64; a Cast to `to` that no step makes at once.
const OperatorImporter* find_step_on_whole(const std::string& op);
ElementType wider_type(ElementType type);
void cast_by_way_of(Import& import, const Source& source, ElementType between, ElementType to);
const OperatorImporter* find_importer(const std::string& op, const std::string& domain = "");

}  // namespace nacre::tools::onnx_import

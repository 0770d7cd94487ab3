#include "tools/importers/keras/setting_rows.h"

namespace nacre::tools::keras {
namespace {

// Keys that end with _initializer, _regularizer or _constraint have rules of their own (settings.cc).
constexpr SettingRow kRows[] = {
    {.classes = "InputLayer", .off = "sparse ragged"},
    {.classes = "Identity Add Subtract Multiply Average Maximum Minimum Divide TrueDivide"},
    {.classes = "Activation", .used = "activation"},
    {.classes = "ActivityRegularization", .training = "l1 l2"},
    {.classes = "ELU", .used = "alpha"},
    {.classes = "LeakyReLU", .used = "alpha negative_slope"},
    {.classes = "PReLU", .used = "shared_axes"},
    {.classes = "ReLU", .used = "max_value negative_slope threshold"},
    {.classes = "Softmax", .used = "axis"},
    {.classes = "ThresholdedReLU", .used = "theta"},
    {.classes = "Dense", .used = "units activation use_bias quantization_config", .training = "lora_rank"},
    {.classes = "EinsumDense",
     .used = "equation output_shape activation bias_axes quantization_config",
     .training = "lora_rank"},
    {.classes = "Embedding", .used = "input_dim output_dim mask_zero quantization_config", .training = "lora_rank"},
    {.classes = "ReversibleEmbedding",
     .used = "input_dim output_dim mask_zero quantization_config tie_weights logit_soft_cap",
     .training = "lora_rank",
     .off = "reverse_dtype"},
    {.classes = "Masking", .used = "mask_value"},
    {.classes = "Conv1D Conv2D Conv3D Convolution1D Convolution2D Convolution3D DepthwiseConv1D DepthwiseConv2D "
                "SeparableConv1D SeparableConv2D",
     .used =
         "filters kernel_size strides padding data_format dilation_rate groups activation use_bias depth_multiplier "
         "quantization_config",
     .training = "lora_rank"},
    {.classes = "Conv1DTranspose Conv2DTranspose Conv3DTranspose Convolution1DTranspose Convolution2DTranspose "
                "Convolution3DTranspose",
     .used = "filters kernel_size strides padding output_padding data_format dilation_rate activation use_bias",
     .off = "groups=1"},
    {.classes = "AveragePooling1D AveragePooling2D AveragePooling3D MaxPooling1D MaxPooling2D MaxPooling3D",
     .used = "pool_size strides padding data_format"},
    {.classes = "GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D "
                "GlobalMaxPooling2D GlobalMaxPooling3D",
     .used = "keepdims data_format"},
    {.classes = "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D AdaptiveMaxPooling1D "
                "AdaptiveMaxPooling2D AdaptiveMaxPooling3D",
     .used = "output_size data_format"},
    // keep_momentum() takes momentum. Keras reads the variables of renorm only in training.
    {.classes = "BatchNormalization BatchNormalizationV1",
     .used = "axis momentum epsilon center scale",
     .training = "renorm virtual_batch_size"},
    {.classes = "LayerNormalization", .used = "axis epsilon center scale rms_scaling"},
    {.classes = "GroupNormalization", .used = "groups axis epsilon center scale"},
    {.classes = "RMSNormalization", .used = "axis epsilon"},
    {.classes = "UnitNormalization", .used = "axis"},
    {.classes = "Rescaling", .used = "scale offset"},
    {.classes = "Normalization", .used = "axis invert mean variance"},
    {.classes = "SpectralNormalization", .used = "layer power_iterations"},  // refused as a whole in training
    {.classes = "Dropout", .used = "rate", .training = "noise_shape"},
    // These layers are refused as a whole in training, unless their rate or stddev is 0.
    {.classes = "SpatialDropout1D SpatialDropout2D SpatialDropout3D AlphaDropout GaussianDropout GaussianNoise",
     .used = "rate stddev noise_shape data_format"},
    {.classes = "Flatten", .used = "data_format"},
    {.classes = "Reshape", .used = "target_shape"},
    {.classes = "Permute", .used = "dims"},
    {.classes = "RepeatVector", .used = "n"},
    {.classes = "ZeroPadding1D ZeroPadding2D ZeroPadding3D", .used = "padding data_format"},
    {.classes = "Cropping1D Cropping2D Cropping3D", .used = "cropping data_format"},
    {.classes = "UpSampling1D UpSampling2D UpSampling3D", .used = "size data_format interpolation"},
    {.classes = "Concatenate", .used = "axis"},
    {.classes = "Dot", .used = "axes normalize"},
    {.classes = "LSTM GRU SimpleRNN",
     .used = "units activation recurrent_activation use_bias reset_after return_sequences return_state go_backwards "
             "stateful time_major zero_output_for_mask",
     .training = "dropout recurrent_dropout"},
    {.classes = "LSTMCell GRUCell SimpleRNNCell",
     .used = "units activation recurrent_activation use_bias reset_after",
     .training = "dropout recurrent_dropout"},
    {.classes = "StackedRNNCells", .used = "cells", .off = "reverse_state_order"},
    {.classes = "RNN",
     .used = "cell return_sequences return_state go_backwards stateful time_major zero_output_for_mask",
     .off = "num_constants"},
    {.classes = "ConvLSTM1D ConvLSTM2D ConvLSTM3D",
     .used = "filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias "
             "return_sequences return_state go_backwards stateful time_major zero_output_for_mask",
     .training = "dropout recurrent_dropout"},
    {.classes = "Bidirectional", .used = "layer backward_layer merge_mode", .off = "num_constants"},
    {.classes = "TimeDistributed", .used = "layer"},
    {.classes = "MultiHeadAttention",
     .used = "num_heads key_dim value_dim use_bias use_gate output_shape attention_axes sliding_window",
     .training = "dropout"},
    {.classes = "GroupQueryAttention GroupedQueryAttention",
     .used = "head_dim num_query_heads num_key_value_heads use_bias use_gate sliding_window",
     .training = "dropout"},
    {.classes = "Attention AdditiveAttention", .used = "use_scale score_mode causal", .training = "dropout"},
    {.classes = "Resizing",
     .used = "height width interpolation crop_to_aspect_ratio pad_to_aspect_ratio fill_value antialias data_format",
     .off = "fill_mode=constant"},
    {.classes = "CenterCrop", .used = "height width data_format"},
    {.classes = "AutoContrast", .used = "value_range data_format"},
    {.classes = "ContrastLimitedAdaptiveHistogramEqualization",
     .used = "value_range clip_limit tile_grid_size data_format"},
    // These layers are refused as a whole in training. In inference they change nothing, or are refused.
    {.classes = kAugmentations,
     .used = "addition_factor all_ops alpha bins brightness_factor chain_depth contrast_factor data_format factor "
             "fill_mode fill_value height height_factor hue_factor interpolation kernel_size mode num_chains num_ops "
             "saturation_factor scale sigma threshold_factor value_range width width_factor x_factor y_factor lower "
             "upper"},
    {.classes = "CategoryEncoding", .used = "num_tokens output_mode sparse"},
    {.classes = "Discretization", .used = "bin_boundaries output_mode sparse"},
    {.classes = "IntegerLookup",
     .used = "vocabulary num_oov_indices mask_token output_mode invert",
     .off = "sparse idf_weights pad_to_max_tokens"},
    {.classes = "STFTSpectrogram", .used = "mode frame_length frame_step padding expand_dims data_format"},
    {.classes = "MelSpectrogram",
     .used = "fft_length sequence_stride sequence_length window sampling_rate num_mel_bins min_freq max_freq "
             "power_to_db top_db mag_exp min_power ref_power"},
};

constexpr const char* kOfShapes = "shapes say it";
constexpr const char* kOfFormulas = "chooses among equal formulas";

constexpr IdleSetting kIdle[] = {
    {"", "name module registered_name", "names what it is"},
    {"", "seed", "draws of Keras are not drawn again"},
    {"", "autocast", "inputs are cast by the layer's dtype"},
    {"", "input_shape batch_size", kOfShapes},
    {"", "implementation unroll use_cudnn", kOfFormulas},
    {"", "lora_alpha", "the file has the sum of a kernel and its adapters; in training lora_rank is refused"},
    {"Dense EinsumDense", "gptq_unpacked_column_size", "codes of gptq are refused"},
    {"Embedding", "input_length", kOfShapes},
    {"LSTM GRU LSTMCell GRUCell ConvLSTM1D ConvLSTM2D ConvLSTM3D SimpleRNN SimpleRNNCell", "unit_forget_bias",
     "begins a bias that the file has"},
    {"BatchNormalization BatchNormalizationV1", "fused", kOfFormulas},
    {"BatchNormalization BatchNormalizationV1", "synchronized", "sums are of all rows on any number of machines"},
    {"BatchNormalization BatchNormalizationV1", "renorm_clipping renorm_momentum",
     "are about renorm, which is refused"},
    {"MultiHeadAttention GroupQueryAttention GroupedQueryAttention", "query_shape key_shape value_shape", kOfShapes},
    {"MultiHeadAttention GroupQueryAttention GroupedQueryAttention", "flash_attention", kOfFormulas},
    {"InputLayer", "optional", "every input is given"},
    {"Discretization", "num_bins epsilon", "made bin_boundaries, which the file has"},
    {"IntegerLookup", "max_tokens vocabulary_size vocabulary_dtype has_input_vocabulary encoding",
     "the vocabulary says it"},
    {"IntegerLookup", "oov_token", "is read by invert, which is refused"},
    {"IntegerLookup", "oov_method salt", "choose among places for what is unknown: there is one"},
    {"STFTSpectrogram", "fft_length window periodic scaling", "the variables hold the transform"},
};

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }
std::span<const IdleSetting> idle_settings() { return kIdle; }

}  // namespace nacre::tools::keras

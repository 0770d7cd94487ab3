// The tables of settings.cc. Words stand between blanks; "key=value" is off at that value too.
#pragma once

#include <span>

namespace nacre::tools::keras {

struct SettingRow {
  const char* classes;
  const char* used = "";
  const char* training = "";  // counts in training alone, where it has no form
  const char* off = "";       // has no form, unless it is off
};
std::span<const SettingRow> setting_rows();

// Keys of every layer that are read: batch_shape and its kin by inputs, trainable by who trains.
inline constexpr const char* kSettingsOfAll = "dtype trainable batch_shape batch_input_shape __input_shape";

// Keys that change nothing in these classes, or in any, and why.
struct IdleSetting {
  const char *classes, *keys, *why;
};
std::span<const IdleSetting> idle_settings();

// Keys that hold sizes and places, in lists or alone.
inline constexpr const char* kSizes =
    "units filters kernel_size strides dilation_rate groups depth_multiplier output_padding pool_size output_size size "
    "cropping input_dim output_dim num_heads key_dim value_dim head_dim num_query_heads num_key_value_heads "
    "attention_axes sliding_window target_shape dims n height width num_tokens axis axes frame_length frame_step "
    "fft_length sequence_stride sequence_length num_mel_bins num_oov_indices tile_grid_size batch_shape "
    "batch_input_shape";

// Keys that hold true or false; and `scale` of normalizations.
inline constexpr const char* kFlags =
    "use_bias use_gate use_scale return_sequences return_state go_backwards stateful time_major zero_output_for_mask "
    "reset_after keepdims normalize center rms_scaling mask_zero tie_weights invert";

// Keys that hold a real number, where an empty list would count as none.
inline constexpr const char* kNumbers = "rate stddev dropout recurrent_dropout";

// Layers that change images in training and hand them on in inference.
inline constexpr const char* kAugmentations =
    "AugMix CutMix Equalization MixUp RandAugment RandomBrightness RandomColorDegeneration RandomColorJitter "
    "RandomContrast RandomCrop RandomElasticTransform RandomErasing RandomFlip RandomGaussianBlur RandomGrayscale "
    "RandomHue RandomInvert RandomPerspective RandomPosterization RandomRotation RandomSaturation RandomSharpness "
    "RandomShear RandomTranslation RandomZoom Solarization";

// Arguments of calls, beside `training`, that converters read.
inline constexpr const char* kArgumentsOfCalls =
    "mask initial_state query value key query_mask value_mask key_mask attention_mask return_attention_scores "
    "use_causal_mask reverse count_weights axis inputs x x1 x2 sequence";

}  // namespace nacre::tools::keras

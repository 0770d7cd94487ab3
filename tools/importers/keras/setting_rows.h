// The tables of settings.cc. Words are separated by blanks. A setting is off at null, false, 0 and empty (is_off); one
// that is listed as "key=value" is off at that value too.
#pragma once

#include <span>

namespace nacre::tools::keras {

struct SettingRow {
  const char* classes;
  const char* used = "";
  const char* training = "";  // keys that matter only in training, where they are refused
  const char* off = "";       // keys that are refused unless they are off
};
std::span<const SettingRow> setting_rows();

// Keys of every layer that are read. Inputs read batch_shape and similar keys; trainable.cc reads trainable.
inline constexpr const char* kSettingsOfAll = "dtype trainable batch_shape batch_input_shape __input_shape";

// Keys that change nothing in these classes, or in any class, with the reason.
struct IdleSetting {
  const char *classes, *keys, *why;
};
std::span<const IdleSetting> idle_settings();

// Keys whose values are sizes and positions, alone or in lists.
inline constexpr const char* kSizes =
    "units filters kernel_size strides dilation_rate groups depth_multiplier output_padding pool_size output_size size "
    "cropping input_dim output_dim num_heads key_dim value_dim head_dim num_query_heads num_key_value_heads "
    "attention_axes sliding_window target_shape dims n height width num_tokens axis axes frame_length frame_step "
    "fft_length sequence_stride sequence_length num_mel_bins num_oov_indices tile_grid_size batch_shape "
    "batch_input_shape";

// Keys whose values are true or false. `scale` of normalizations is such a key too.
inline constexpr const char* kFlags =
    "use_bias use_gate use_scale return_sequences return_state go_backwards stateful time_major zero_output_for_mask "
    "reset_after keepdims normalize center rms_scaling mask_zero tie_weights invert";

// Keys whose value is a real number. Without this table an empty list would count as off.
inline constexpr const char* kNumbers = "rate stddev dropout recurrent_dropout";

// Layers that change images in training and return them unchanged in inference. Only RandomCrop may resize them in
// inference; then it is refused (convert_augmentation).
inline constexpr const char* kAugmentations =
    "AugMix CutMix Equalization MixUp RandAugment RandomBrightness RandomColorDegeneration RandomColorJitter "
    "RandomContrast RandomCrop RandomElasticTransform RandomErasing RandomFlip RandomGaussianBlur RandomGrayscale "
    "RandomHue RandomInvert RandomPerspective RandomPosterization RandomRotation RandomSaturation RandomSharpness "
    "RandomShear RandomTranslation RandomZoom Solarization";

// Arguments of calls that converters read, in addition to `training`.
inline constexpr const char* kArgumentsOfCalls =
    "mask initial_state query value key query_mask value_mask key_mask attention_mask return_attention_scores "
    "use_causal_mask reverse count_weights axis inputs x x1 x2 sequence";

}  // namespace nacre::tools::keras

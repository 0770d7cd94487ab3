// Reads the loss scale of tf.keras's experimental Policy, as its get_config writes it:
//
//   null | "auto" | "dynamic" | a number
//   {"class_name": "FixedLossScale", "config": {"loss_scale_value": S}}
//   {"class_name": "DynamicLossScale", "config": {"initial_loss_scale": S, "increment_period": N, "multiplier": F}}
//
// See tensorflow/python/keras/mixed_precision/policy.py (PolicyV1) and python/training/experimental/loss_scale.py.
#pragma once

#include <string>

#include "tools/base/print.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

struct TfLossScale {
  Json field;  // the value of a policy's field loss_scale: "none", "auto", "dynamic" or a number; other texts as given
  std::string
      numbers;  // a dynamic scale's numbers, as --loss-scale takes them: "=64,period=2,factor=4"; "" for TensorFlow's
};

// Reads a loss scale. Throws PolicyError: WrongType, UnknownClass, UnknownField, MissingField, BadField.
TfLossScale read_tf_loss_scale(const Json& json, const Place& place);

}  // namespace nacre::tools

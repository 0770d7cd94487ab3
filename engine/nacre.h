// Nacre runs neural networks in the caller's memory. This is the one header that a C++ application includes:
// <nacre/nacre.h>.
//
//   Model        a checked view of a model file's bytes               engine/model/model.h
//   TensorInfo   name, type, shape and scales of a tensor             engine/model/tensor_info.h
//   Program      one program of a model, bound to kernels and memory  engine/run/program.h
//   Places       binds a program whose steps run on ports             engine/run/places.h
//   Trainer      trains the model in the caller's memory              engine/train/trainer.h
//   Checkpoint   saves the state that a Trainer learned               engine/train/checkpoint.h
//   ModelSlots   a model file and its successor in a flash            engine/model/model_slots.h
//   Status       the result of every call that can refuse             engine/base/status.h
//   reference::kernels()   the kernels that run everywhere   engine/kernels/reference.h; training_kernels(): training.h
#pragma once

#if !defined(_MSVC_LANG) && __cplusplus < 202002L || defined(_MSVC_LANG) && _MSVC_LANG < 202002L
#error "Nacre is C++20: compile with -std=c++20 or later (C programs include nacre/nacre_c.h)"
#endif

#include "engine/base/status.h"
#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/model/model.h"
#include "engine/model/model_slots.h"
#include "engine/model/tensor_info.h"
#include "engine/run/places.h"
#include "engine/run/program.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"

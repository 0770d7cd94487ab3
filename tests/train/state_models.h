// Small models with a state, for tests of checkpoints. Their programs are as short as the engine allows.
#pragma once

#include "tests/model/builder.h"

namespace nacre::test {

// Builds a parameter w [n], which infer reads, and an optimizer's moment and step count, which nothing reads.
inline Draft learner(int n, const char* optimizer, ElementType moment = ElementType::kFloat32,
                     const char* w_name = "w") {
  Draft d;
  const uint32_t w = d.global(Region::kState, ElementType::kFloat32, {n}, kTrainable);
  const uint32_t running = d.global(Region::kState, ElementType::kFloat32, {n});
  d.tensor_names = {w_name, "running"};
  if (optimizer != nullptr) {
    d.global(Region::kState, moment, {n});
    d.global(Region::kState, ElementType::kUint32, {1});
    d.tensor_names.insert(d.tensor_names.end(), {std::string(optimizer) + "/moment", std::string(optimizer) + "/step"});
  }
  const uint32_t x = d.arena(ElementType::kFloat32, {n}, 0, 0, 0, kNoIndex, kInput);
  const auto bytes = uint64_t(4 * n + 15) / 16 * 16;
  const uint32_t y = d.arena(ElementType::kFloat32, {n}, 0, 1, bytes);
  const uint32_t z = d.arena(ElementType::kFloat32, {n}, 1, 1, 2 * bytes, kNoIndex, kOutput);
  d.step(Op::kAdd, {}, {x, w}, {y});
  d.step(Op::kMul, {}, {y, running}, {z});
  d.program(Entry::kInfer, "", {3 * bytes});
  d.tensor_names.insert(d.tensor_names.end(), {"x", "y", "z"});
  return d;
}

}  // namespace nacre::test

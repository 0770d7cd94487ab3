#include "tests/model/ask_c_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/nacre_c.h"
#include "engine/nacre_c_training.h"

namespace nacre::test {
namespace {

void hold(bool promise, const char* text) {
  if (promise) return;
  std::fprintf(stderr, "broken promise of the C API: %s\n", text);
  std::abort();
}

class Asker {
 public:
  explicit Asker(const nacre_model* model) : model_(model) {}

  size_t ask() {
    const uint32_t programs = nacre_model_program_count(model_);
    for (uint32_t p = 0; p < programs; ++p) program(p);
    for (uint32_t i = 0; i < nacre_model_tensor_count(model_); ++i)
      answered(nacre_model_tensor(model_, i, &info_), i, "every tensor is told");
    hold(nacre_model_tensor(model_, nacre_model_tensor_count(model_), &info_).code != 0, "no tensor behind the last");
    metadata();
    sums();
    parameters();
    uint8_t hash[16];
    nacre_model_hash(model_, hash);
    return answers_;
  }

 private:
  void text(const char* words) {
    hold(words != nullptr, "a text is never NULL");
    read_ = read_ + std::strlen(words);
  }

  void answered(nacre_status status, uint32_t tensor, const char* promise) {
    hold(status.code == 0, promise);
    hold(tensor == kAny || info_.tensor == tensor, "a tensor tells its own id");
    text(info_.name);
    text(info_.axes);
    hold(info_.rank <= 8, "at most 8 axes");
    for (uint32_t i = 0; i < info_.scale_count; ++i) {
      read_ = read_ + size_t(info_.scales[i] != 0);
      if (info_.zeros != nullptr) read_ = read_ + size_t(info_.zeros[i] != 0);
    }
    hold(info_.scale_count == 0 || (info_.axis < info_.rank && info_.scale_count == uint32_t(info_.dims[info_.axis])),
         "one scale for each index of its axis");
    ++answers_;
  }

  void program(uint32_t p) {
    nacre_program_info info = {};
    info.size = sizeof info;
    hold(nacre_model_program(model_, p, &info).code == 0, "every program is told");
    text(info.target);
    // Searches by the C string. A target whose name contains a 0, which open accepts, cannot be found.
    uint32_t found = kAny;
    if (nacre_model_find(model_, info.entry, info.target, &found).code == 0)
      hold(found <= p, "the first program of an entry and target is found");
    else hold(found == kAny, "nothing is written where no program is found");
    const auto all = [&](uint32_t count, auto at, auto named) {
      for (uint32_t i = 0; i < count; ++i) {
        answered(at(model_, p, i, &info_), kAny, "every input and output is told");
        hold(info_.program == p && info_.index == i, "it knows its place");
        const std::string name = info_.name;
        const nacre_status status = named(model_, name.c_str(), &info_);
        if (status.code == 0) answered(status, kAny, "");
      }
      hold(at(model_, p, count, &info_).code != 0, "none behind the last");
    };
    all(info.inputs, nacre_model_input_at, nacre_model_input);
    all(info.outputs, nacre_model_output_at, nacre_model_output);
    for (uint32_t s = 0; s < info.steps; ++s) {
      nacre_step_info step = {};
      step.size = sizeof step;
      hold(nacre_model_step(model_, p, s, &step).code == 0, "every step is told");
      text(step.op);
      text(step.layer);
      nacre_operand_info operand = {};
      operand.size = sizeof operand;
      for (uint32_t i = 0; i < step.operands; ++i, ++answers_) {
        hold(nacre_model_operand(model_, p, s, i, &operand).code == 0, "every operand is told");
        hold(operand.role <= NACRE_READ_AND_WRITTEN, "an operand is read, written or both");
        hold(operand.tensor == kAny || operand.tensor < nacre_model_tensor_count(model_), "an operand is a tensor");
      }
      hold(nacre_model_operand(model_, p, s, step.operands, &operand).code != 0, "no operand behind the last");
      ++answers_;
    }
  }

  void metadata() {
    for (uint32_t i = 0; i < nacre_model_metadata_count(model_); ++i) {
      const char *key = nullptr, *value = nullptr;
      hold(nacre_model_metadata_at(model_, i, &key, &value).code == 0, "all metadata is told");
      text(key);
      text(value);
      if (const char* const same = nacre_model_metadata(model_, key); same != nullptr) text(same);
      ++answers_;
    }
    for (uint32_t i = 0; i < 64; ++i) {
      size_t length = 0;
      const char* const label = nacre_model_label(model_, i, &length);
      if (label == nullptr) break;
      for (size_t k = 0; k < length; ++k) read_ = read_ + size_t(label[k]);
      ++answers_;
    }
  }

  // The sums must lie in the step block in order, without overlaps.
  void sums() {
    nacre_gradient_run run = {};
    uint64_t end = 0;
    const uint32_t count = nacre_gradient_run_at(model_, 0, &run);
    for (uint32_t i = 0; i < count; ++i, ++answers_) {
      nacre_gradient_run_at(model_, i, &run);
      hold(run.bytes > 0 && run.first >= end && run.kind <= 3, "stretches of sums are in order");
      end = run.first + run.bytes;
    }
  }

  void parameters() {
    const nacre_trainer trainer = {};  // not started: no values; names come from the model
    for (uint32_t i = 0; i < nacre_parameter_count(model_); ++i)
      answered(nacre_trainer_parameter_at(model_, &trainer, i, &info_, nullptr), kAny, "every parameter is told");
  }

  static constexpr uint32_t kAny = 0xFFFFFFFF;
  const nacre_model* model_;
  nacre_tensor_info info_ = [] {
    nacre_tensor_info info = {};
    info.size = sizeof info;
    return info;
  }();
  size_t answers_ = 0;
  volatile size_t read_ = 0;  // keeps reads from being optimised away
};

}  // namespace

size_t ask_c_api(std::span<const std::byte> file) {
  nacre_model model;
  if (nacre_model_open(&model, file.data(), file.size()).code != 0) return 0;
  return Asker(&model).ask();
}

}  // namespace nacre::test

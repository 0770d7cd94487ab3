// Inputs of `nacre run`, as bytes for the program's inputs. A file of another type or shape is refused; each
// conversion must be asked for (InputOptions).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct InputOptions {
  std::vector<std::string> files;  // NAME=FILE.npy, NAME=FILE.bin; NAME= may be left out where there is one
                                   // input; or FILE.npz with arrays by the inputs' names
  bool quantize = false;           // float32 -> codes, by the input's scale
  bool cast = false;               // number for number; refused where that loses one
  bool resize = false;             // pictures to the input's height and width (files/resize_picture.h)
  std::optional<uint64_t> seed;    // inputs without a file are drawn from it
};

// Samples lie one after the other. A program takes a batch of rows at a time; the last run may have fewer.
struct RunInputs {
  std::vector<ElementBytes> data;  // per input of the program
  uint64_t runs = 1;
  uint32_t batch = 1;      // rows of a run
  uint32_t last_rows = 0;  // of the last run; 0: all

  uint64_t rows() const { return last_rows == 0 ? runs * batch : (runs - 1) * batch + last_rows; }
  std::span<const uint8_t> sample(uint32_t input, uint64_t run, uint64_t bytes) const;
};

RunInputs read_inputs(const LoadedModel& model, uint32_t program, const InputOptions& options);

// Stacks arrays that were read already, one per input of the program; `place` of each names it in errors. `quantize`
// as in InputOptions.
RunInputs stack_inputs(const LoadedModel& model, uint32_t program, const std::vector<NpyArray>& arrays, bool quantize);

// Whether axis 0 of this tensor counts rows, so that samples can be stacked on it.
bool has_rows(const TensorRecord& record, uint32_t batch);

}  // namespace nacre::tools

// Turns files or arrays into bytes for a program's inputs. An array of another type or shape is refused, unless its
// conversion is asked for (InputOptions). Pictures and sounds are converted as the model's metadata say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct InputOptions {
  std::vector<std::string> files;  // NAME=FILE, .npy, .bin, a picture or a sound; one input needs no NAME=;
                                   // or FILE.npz with arrays by the inputs' names
  bool quantize = false;           // float32 becomes codes, by the input's scale, or another float type, rounded
  bool cast = false;               // converts number for number; refuses a number that would change
  bool resize = false;             // resizes pictures to the input's height and width (files/resize_picture.h)
  std::optional<uint64_t> seed;    // seed for inputs without a file
};

// The program's inputs. Samples lie one after the other. Each run takes a batch of rows; the last may have fewer.
struct RunInputs {
  std::vector<ElementBytes> data;  // per input of the program
  uint64_t runs = 1;
  uint32_t batch = 1;      // rows of each run
  uint32_t last_rows = 0;  // rows of the last run; 0: a whole batch

  uint64_t rows() const { return last_rows == 0 ? runs * batch : (runs - 1) * batch + last_rows; }
  std::span<const uint8_t> sample(uint32_t input, uint64_t run, uint64_t bytes) const;
};

RunInputs read_inputs(const LoadedModel& model, uint32_t program, const InputOptions& options);

// Stacks arrays that were already read, one per input of the program; the `place` of each names it in errors.
// `quantize` acts as in InputOptions.
RunInputs stack_inputs(const LoadedModel& model, uint32_t program, const std::vector<NpyArray>& arrays, bool quantize);

// Returns whether axis 0 of this tensor counts rows, so that samples can be stacked along it.
bool has_rows(const TensorRecord& record, uint32_t batch);

}  // namespace nacre::tools

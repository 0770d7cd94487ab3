// Writes the fine-tuning image's data from the arrays of shift_digits: pixels as float32, or as the int8 codes of
// MODEL's input, and labels as int32.
//
//   finetune_data DIR BATCH TRAIN_SAMPLES TEST_SAMPLES DATA TEST [MODEL]     writes the first samples of each
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "tools/base/error.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace {

using nacre::tools::NpyArray;

struct Codes {
  double scale, zero;
};

// Returns the quantizer of the int8 model's input, or {} if no model is named.
std::optional<Codes> codes_of(const char* model) {
  if (model == nullptr) return {};
  const nacre::tools::LoadedModel loaded(model);
  const uint32_t input = loaded.model().program(loaded.infer_program()).inputs[0];
  const auto scales = loaded.scales(input);
  if (loaded.model().tensors()[input].element != nacre::ElementType::kInt8 || !scales)
    throw nacre::tools::Error(nacre::tools::kBadInput, model, "its input is not int8",
                              "convert it with --io-types policy");
  return Codes{double(scales->scale[0]), double(scales->zero.empty() ? 0 : scales->zero[0])};
}

struct Set {
  std::optional<Codes> codes;
  NpyArray images, labels;
  size_t pixels() const { return images.data.size() / size_t(images.dims[0]); }

  Set(const std::string& prefix, std::optional<Codes> coded)
      : codes(coded), images(nacre::tools::read_npy(prefix + "_images.npy")),
        labels(nacre::tools::read_npy(prefix + "_labels.npy")) {}

  void put_image(std::ofstream& to, size_t i) const {
    for (size_t p = 0; p < pixels(); ++p) {
      const auto value = float(images.data[i * pixels() + p]);
      if (codes) {
        const double code = std::round(double(value) / codes->scale) + codes->zero;
        to.put(char(int8_t(std::clamp(code, -128.0, 127.0))));
        continue;
      }
      to.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  void put_label(std::ofstream& to, size_t i) const {
    const int32_t label = labels.data[i];
    to.write(reinterpret_cast<const char*>(&label), sizeof label);
  }
};

void run(char** a) {
  const std::string folder = a[1];
  const auto batch = size_t(std::atoi(a[2])), train_count = size_t(std::atoi(a[3])),
             test_count = size_t(std::atoi(a[4]));
  const std::optional<Codes> codes = codes_of(a[7]);
  const Set train(folder + "/train", codes), test(folder + "/test", codes);
  std::ofstream data(a[5], std::ios::binary), tested(a[6], std::ios::binary);
  for (size_t first = 0; first + batch <= std::min(train_count, size_t(train.images.dims[0])); first += batch) {
    for (size_t i = first; i < first + batch; ++i) train.put_image(data, i);
    for (size_t i = first; i < first + batch; ++i) train.put_label(data, i);
  }
  for (size_t i = 0; i < std::min(test_count, size_t(test.images.dims[0])); ++i) {
    test.put_image(tested, i);
    test.put_label(tested, i);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7 && count != 8) {
    std::fprintf(stderr, "finetune_data DIR BATCH TRAIN_SAMPLES TEST_SAMPLES DATA TEST [MODEL]\n");
    return 2;
  }
  try {
    run(arguments);
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "finetune_data: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Data for the fine-tuning image, from the arrays that shift_digits writes: pixels as float32, labels as int32.
//
//   finetune_data DIR BATCH TRAIN_SAMPLES TEST_SAMPLES DATA TEST     the first so many of each
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tools/base/error.h"
#include "tools/files/npy.h"

namespace {

using nacre::tools::NpyArray;

struct Set {
  NpyArray images, labels;
  size_t pixels() const { return images.data.size() / size_t(images.dims[0]); }

  explicit Set(const std::string& prefix)
      : images(nacre::tools::read_npy(prefix + "_images.npy")), labels(nacre::tools::read_npy(prefix + "_labels.npy")) {
  }

  void put_image(std::ofstream& to, size_t i) const {
    for (size_t p = 0; p < pixels(); ++p) {
      const auto value = float(images.data[i * pixels() + p]);
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
  const Set train(folder + "/train"), test(folder + "/test");
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
  if (count != 7) {
    std::fprintf(stderr, "finetune_data DIR BATCH TRAIN_SAMPLES TEST_SAMPLES DATA TEST\n");
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

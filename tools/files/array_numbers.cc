#include "tools/files/array_numbers.h"

#include <fmt/format.h>

#include "tools/base/error.h"
#include "tools/base/format.h"

namespace nacre::tools {

std::string index_text(const NpyArray& array, size_t i) {
  std::vector<int64_t> index(array.dims.size());
  for (size_t axis = index.size(); axis-- > 0;) {
    index[axis] = int64_t(i % size_t(array.dims[axis]));
    i /= size_t(array.dims[axis]);
  }
  return dims_text(index);
}

std::vector<int64_t> classes_of_one_hot(const NpyArray& array, size_t width) {
  std::vector<int64_t> classes;
  size_t ones = 0;
  for_each_number(array, [&](size_t i, double x) {
    if (i % width == 0) {
      classes.push_back(0);
      ones = 0;
    }
    if (x == 1 && ones++ == 0) classes.back() = int64_t(i % width);
    if ((x != 0 && x != 1) || ones > 1 || (ones == 0 && i % width + 1 == width))
      throw Error(kBadInput, array.place,
                  fmt::format("the numbers up to {} are not one 1 among zeros", index_text(array, i)),
                  "give one-hot rows, or the numbers of the classes");
  });
  return classes;
}

}  // namespace nacre::tools

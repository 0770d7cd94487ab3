// Tests all layouts: the position of every element against a list built panel by panel, what Pack writes, and the
// verifier's answer to other sizes.
#include "engine/ops/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "engine/run/find_entry.h"
#include "tests/model/execute.h"
#include "tools/graph/bound_step.h"
#include "tools/graph/layouts.h"

namespace nacre::test {
namespace {

constexpr size_t kGap = ~size_t{0};

// Returns the row-major index of each stored element in storage order, kGap for zeros. Follows the description of the
// layout.
std::vector<size_t> stored_order(unsigned bits, const std::vector<int32_t>& dims) {
  const bool channels = (bits & 128) != 0;
  const auto product = [&](size_t first, size_t end) {
    return std::accumulate(dims.begin() + ptrdiff_t(first), dims.begin() + ptrdiff_t(end), size_t{1},
                           std::multiplies<>());
  };
  const size_t matrices = channels ? size_t(dims[0]) : 1;
  const size_t rows = size_t(channels ? dims.back() : dims[0]);
  const size_t columns = channels ? product(1, dims.size() - 1) : product(1, dims.size());
  const size_t group = size_t{1} << (bits >> 3 & 7);
  size_t padded = rows;
  if ((bits & 64) != 0)
    while (padded % 16 != 0) ++padded;
  const size_t panel = (bits & 7) == 7 ? padded : size_t{1} << (bits & 7);
  while (padded % panel != 0) ++padded;
  std::vector<size_t> order;
  for (size_t n = 0; n < matrices; ++n)
    for (size_t first_row = 0; first_row < padded; first_row += panel)
      for (size_t first_column = 0; first_column < columns; first_column += group)
        for (size_t r = first_row; r < first_row + panel; ++r)
          for (size_t c = first_column; c < first_column + group; ++c) {
            const size_t index = channels ? (n * columns + c) * rows + r : r * columns + c;
            order.push_back(r < rows && c < columns ? index : kGap);
          }
  return order;
}

const std::vector<std::vector<int32_t>> kShapes = {{1, 1},       {3, 5},     {17, 9},      {32, 64},
                                                   {5, 2, 3, 7}, {2, 3, 19}, {40, 1, 1, 3}};

Shape shape_of(const std::vector<int32_t>& dims) { return {int(dims.size()), dims.data(), 0}; }

TEST(pack, every_element_of_every_layout_stands_where_the_layout_says) {
  for (unsigned bits = 0; bits < 255; ++bits)
    for (const auto& dims : kShapes) {
      const Layout layout{uint8_t(bits)};
      const std::vector<size_t> order = stored_order(bits, dims);
      ASSERT_EQ(stored_elements(layout, shape_of(dims)), order.size()) << bits;
      std::vector<float> x(size_t(shape_of(dims).elements()));
      std::iota(x.begin(), x.end(), 1.0f);
      std::vector<float> y(order.size() + 1, -7);
      Pack::from(layout, shape_of(dims)).forward(x.data(), Packed<float, Layout::kAny>{y.data()});
      for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(y[i], order[i] == kGap ? 0 : x[order[i]]) << bits << " " << i;
      EXPECT_EQ(y.back(), -7);
      TensorRecord record = {};
      record.element = ElementType::kFloat32;
      record.rank = uint8_t(dims.size());
      std::copy(dims.begin(), dims.end(), record.dims);
      record.layout = layout;
      record.bytes = order.size() * sizeof(float);
      const std::vector<uint8_t> rows = tools::row_major_bytes(record, reinterpret_cast<const std::byte*>(y.data()));
      ASSERT_EQ(rows.size(), x.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(rows.data(), x.data(), rows.size()), 0) << bits;
    }
}

TEST(pack, the_common_layouts_are_what_they_are_called) {
  const std::vector<int32_t> dims = {2, 3};
  const auto order = [&](Layout layout) { return stored_order(uint8_t(layout), dims); };
  EXPECT_EQ(order(Layout::kRowMajor), (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(order(kTransposed), (std::vector<size_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(order(layout_of(2)),  // panels of 4 rows
            (std::vector<size_t>{0, 3, kGap, kGap, 1, 4, kGap, kGap, 2, 5, kGap, kGap}));
  EXPECT_EQ(order(layout_of(1, 1)), (std::vector<size_t>{0, 1, 3, 4, 2, kGap, 5, kGap}));  // pairs
  EXPECT_EQ(order(layout_of(0, 2)), (std::vector<size_t>{0, 1, 2, kGap, 3, 4, 5, kGap}));  // rows of 4
  EXPECT_EQ(tools::layout_name(layout_of(4, 2)), "panels16x4");
  EXPECT_EQ(tools::layout_name(layout_of(3, 0, kWholeTiles)), "panels8+tiles");
  EXPECT_EQ(tools::layout_name(kTransposed), "transposed");
  EXPECT_EQ(tools::layout_name(layout_of(4, 0, kOfChannels)), "channels16");
  std::set<std::string> names;
  for (unsigned bits = 0; bits < 255; ++bits) names.insert(tools::layout_name(Layout{uint8_t(bits)}));
  EXPECT_EQ(names.size(), 255u) << "no two have one name";
}

// Pixels [2, 3, 4, 8] in panels of 4 channels are stored as [2, 8 / 4, 3, 4, 4]. One row of the batch is half of
// them.
TEST(pack, of_a_batch_each_row_is_a_part) {
  const std::vector<int32_t> dims = {2, 3, 4, 8};
  const Layout layout = layout_of(2, 0, kOfChannels);
  const std::vector<size_t> both = stored_order(uint8_t(layout), dims),
                            one = stored_order(uint8_t(layout), {1, 3, 4, 8});
  EXPECT_EQ(both[0], 0u);
  EXPECT_EQ(both[1], 1u);
  EXPECT_EQ(both[4], 8u);
  EXPECT_EQ(both[48], 4u);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin()));
  EXPECT_EQ(stored_elements(layout, {4, dims.data(), 1}), one.size());
}

// Opens a model whose program derive packs a weight; `more` is added to the packed size. Returns the status of open.
Status opened(ElementType type, const std::vector<int32_t>& dims, Layout layout, int64_t more) {
  Draft d;
  const uint32_t w = d.global(Region::kState, type, dims);
  const uint32_t packed = d.global(Region::kDerived, type, dims);
  TensorRecord& r = d.tensors[packed];
  r.layout = layout;
  r.bytes = uint64_t(int64_t(storage_bytes(type, stored_elements(layout, shape_of(dims)))) + more);
  d.region_bytes[2] = r.bytes + 64;
  const uint32_t x = d.arena(ElementType::kFloat32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(ElementType::kFloat32, {4}, 0, 0, 16, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {x}, {y});
  d.program(Entry::kInfer, "host", {32});
  d.step(Op::kPack, {}, {w}, {packed});
  d.program(Entry::kDerive, "host", {0});
  const Buffer file = pack(d);
  Model model;
  NACRE_TRY(model.open(file.bytes()));
  Sizes sizes;
  return Program::measure(model, 1, reference_kernels(), &sizes);
}

TEST(pack, the_verifier_knows_the_bytes_of_every_layout) {
  size_t refused = 0;
  for (unsigned bits = 0; bits < 255; ++bits)
    for (const auto& dims : kShapes)
      for (const ElementType type : {ElementType::kFloat32, ElementType::kInt8, ElementType::kFloat16}) {
        const Layout layout{uint8_t(bits)};
        EXPECT_TRUE(opened(type, dims, layout, 0).ok()) << bits;
        for (const int64_t more : {-1, 1, 16}) {
          const Status s = opened(type, dims, layout, more);
          EXPECT_EQ(s.code, Code::kBytes) << bits;
          EXPECT_EQ(s.table, Table::kTensor);
          EXPECT_EQ(s.index, 1u);
          ++refused;
        }
      }
  EXPECT_EQ(refused, 255u * kShapes.size() * 9);
  EXPECT_EQ(opened(ElementType::kFloat32, {3, 5}, Layout::kAny, 0).code, Code::kLayout);
  EXPECT_EQ(opened(ElementType::kInt8, {1, 1 << 28}, layout_of(6), 0).code, Code::kLayout);
}

TEST(pack, a_copy_that_open_would_refuse_is_not_made) {
  TensorRecord r = {};
  r.element = ElementType::kInt8;
  r.rank = 2;
  r.dims[0] = 1, r.dims[1] = 1 << 25;
  r.region = Region::kWeights;
  const auto wants = [&](Layout layout) { return packs(r, {ElementType::kInt8, uint8_t(Role::kIn), layout}); };
  EXPECT_FALSE(wants(layout_of(6))) << "2^31 elements";
  EXPECT_TRUE(wants(layout_of(5)));
  EXPECT_FALSE(wants(Layout::kAny));
  r.element = ElementType::kInt32;
  EXPECT_FALSE(wants(layout_of(2))) << "pairs and biases are row-major";
}

}  // namespace
}  // namespace nacre::test

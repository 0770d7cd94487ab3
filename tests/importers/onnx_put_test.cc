// Tests scatters that write numbers at indices of run time, against scatters with stored indices or numbers by hand.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using PutPlaces = std::vector<int64_t>;
using PutNumbers = std::vector<float>;

struct Scatter {
  const char* op;
  Dims x, ids, u;
  std::vector<std::pair<const char*, int64_t>> attributes = {};
  bool circular = false;
};

PutNumbers counted_reals(const Dims& dims, float first) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  PutNumbers numbers(size_t(count), 0);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + float(i);
  return numbers;
}

OnnxBuilder scatter(const Scatter& s, const PutPlaces* stored) {
  OnnxBuilder b(24);
  b.floats("u", s.u, counted_reals(s.u, 100));
  b.input("x", s.x);
  if (stored != nullptr) b.integers("ids", s.ids, *stored);
  else b.input("ids", s.ids, {}, TensorProto::INT64);
  const bool cache = std::string(s.op) == "TensorScatter";
  OnnxNode node = cache ? b.node(s.op, {"x", "u", "ids"}, {"y"}) : b.node(s.op, {"x", "ids", "u"}, {"y"});
  for (const auto& [key, number] : s.attributes) node.integer(key, number);
  if (s.circular) node.text("mode", "circular");
  b.output("y");
  return b;
}

PutNumbers put(const Scatter& s, const PutPlaces& places) {
  const Graph graph = converted(scatter(s, nullptr));
  return reals(output(run_graph(graph, {bytes_of(counted_reals(s.x, 0)), bytes_of(places)})));
}

void expect_as_stored(const Scatter& s, const PutPlaces& places) {
  const PutNumbers expected = computed(scatter(s, &places), counted_reals(s.x, 0));
  EXPECT_EQ(put(s, places), expected) << s.op << ' ' << s.u.size() << " axes, first place " << places[0];
}

TEST(onnx_put, rows_go_into_a_cache) {
  const Scatter one = {"TensorScatter", {2, 3, 4, 2}, {2}, {2, 3, 1, 2}};
  const Scatter three = {"TensorScatter", {2, 3, 4, 2}, {2}, {2, 3, 3, 2}};
  const Scatter wide = {"TensorScatter", {2, 4, 3, 2}, {2}, {2, 2, 3, 2}, {{"axis", 1}}};
  for (const PutPlaces& places : {PutPlaces{0, 3}, PutPlaces{2, 1}}) expect_as_stored(one, places);
  for (const PutPlaces& places : {PutPlaces{0, 1}, PutPlaces{1, 1}}) expect_as_stored(three, places);
  for (const PutPlaces& places : {PutPlaces{0, 2}, PutPlaces{1, 0}}) expect_as_stored(wide, places);
}

TEST(onnx_put, a_circular_cache_goes_on_at_its_beginning) {
  const Scatter three = {"TensorScatter", {2, 1, 4, 2}, {2}, {2, 1, 3, 2}, {}, true};
  for (const PutPlaces& places : {PutPlaces{0, 1}, PutPlaces{3, 2}}) expect_as_stored(three, places);
}

TEST(onnx_put, a_full_cache_takes_nothing_more) {
  const Scatter one = {"TensorScatter", {1, 1, 4, 2}, {1}, {1, 1, 1, 2}};
  const Scatter three = {"TensorScatter", {1, 1, 4, 2}, {1}, {1, 1, 3, 2}};
  for (const int64_t outside : {-1, 4, 5}) EXPECT_THROW(put(one, {outside}), Error) << outside;
  for (const int64_t outside : {-1, 2, 4}) EXPECT_THROW(put(three, {outside}), Error) << outside;
}

TEST(onnx_put, tuples_say_which_rows_are_put) {
  expect_as_stored({"ScatterND", {4, 2}, {1, 1}, {1, 2}}, {2});
  expect_as_stored({"ScatterND", {4, 2}, {3, 1}, {3, 2}}, {2, 0, -1});
  expect_as_stored({"ScatterND", {2, 3, 4}, {2, 2, 2}, {2, 2, 4}}, {1, 2, 0, 0, -1, -3, 0, -1});
  expect_as_stored({"ScatterND", {2, 3}, {1, 2}, {1}}, {1, -1});
}

TEST(onnx_put, the_last_update_of_a_place_counts) {
  EXPECT_EQ(put({"ScatterND", {3, 1}, {3, 1}, {3, 1}}, {1, 2, -2}), (PutNumbers{0, 102, 101}));
}

TEST(onnx_put, elements_are_put_along_any_axis) {
  expect_as_stored({"ScatterElements", {2, 4}, {2, 1}, {2, 1}, {{"axis", 1}}}, {3, 0});
  expect_as_stored({"ScatterElements", {2, 4}, {2, 2}, {2, 2}, {{"axis", 1}}}, {3, 0, -1, 1});
  expect_as_stored({"ScatterElements", {3, 2}, {2, 2}, {2, 2}, {{"axis", 0}}}, {2, 0, 1, -1});
}

TEST(onnx_put, places_outside_are_refused_when_they_are_there) {
  EXPECT_THROW(put({"ScatterND", {3, 1}, {1, 1}, {1, 1}}, {3}), Error);
  EXPECT_THROW(put({"ScatterND", {2, 3}, {1, 2}, {1}}, {0, 3}), Error) << "it would be in the next row";
  EXPECT_THROW(put({"ScatterND", {3, 1}, {1, 1}, {1, 1}}, {-4}), Error);
  EXPECT_THROW(put({"ScatterElements", {2, 2}, {2, 1}, {2, 1}, {{"axis", 1}}}, {0, 2}), Error);
}

TEST(onnx_put, operands_that_do_not_fit_are_refused) {
  const std::pair<Scatter, const char*> wrong[] = {
      {{"TensorScatter", {1, 4, 2}, {2}, {1, 1, 2}}, "do not fit its cache"},
      {{"TensorScatter", {1, 4, 2}, {1}, {1, 5, 2}}, "do not fit its cache"},
      {{"TensorScatter", {1, 4, 2}, {1}, {1, 1, 3}}, "does not fit its cache"},
      {{"ScatterND", {2, 3}, {1, 3}, {1}}, "more numbers than its input has axes"},
      {{"ScatterND", {2, 3}, {2, 1}, {1, 3}}, "do not fit its indices"},
      {{"ScatterElements", {2, 3}, {1, 1}, {1, 1}}, "fewer than its elements"},
      {{"ScatterElements", {2, 3}, {1, 3}, {2, 3}}, "do not fit each other"},
  };
  for (const auto& [s, why] : wrong)
    EXPECT_NE(refusal(scatter(s, nullptr)).find(why), std::string::npos) << why << ": " << refusal(scatter(s, nullptr));
}

TEST(onnx_put, every_changed_byte_is_imported_or_refused) {
  flip_every_byte(scatter({"TensorScatter", {1, 4, 2}, {1}, {1, 2, 2}}, nullptr));
}

}  // namespace
}  // namespace nacre::tools

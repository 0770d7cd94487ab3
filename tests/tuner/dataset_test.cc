// Tests training data fitted to a program's inputs: every form gives the same numbers, and data that does not fit is
// refused in one sentence.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/tuner/dataset.h"

namespace nacre::tools {
namespace {

template <class T>
NpyArray array(std::vector<int64_t> dims, const std::vector<T>& x) {
  NpyArray a = {.type = Element<T>::kType,
                .dims = std::move(dims),
                .data = std::vector<uint8_t>(x.size() * sizeof(T)),
                .place = "test"};
  if (!x.empty()) std::memcpy(a.data.data(), x.data(), a.data.size());
  return a;
}

const std::vector<SampleSpec> kOne = {{.name = "pixels", .dims = {2, 1}}};
const LabelSpec kClasses = {.sample = {.name = "labels", .type = ElementType::kInt32, .dims = {}}, .classes = 3};
const LabelSpec kTargets = {.sample = {.name = "labels", .dims = {3}}};
const std::vector<float> kX = {0.5, 1, 2, 3, 4, 250};
const std::vector<int32_t> kY = {2, 0, 1};

class dataset : public testing::Test {
 protected:
  std::string npy(const std::string& name, const NpyArray& a) {
    write_npy(folder_ / name, a);
    return folder_ / name;
  }
  std::string text(const std::string& name, const std::string& content) {
    write_bytes(folder_ / name, {content.begin(), content.end()});
    return folder_ / name;
  }
  Dataset read(const DataOptions& options, const LabelSpec& labels = kClasses,
               const std::vector<SampleSpec>& inputs = kOne) {
    notes_.clear();
    return read_dataset(inputs, labels, options, notes_);
  }
  void expect_refusal(const DataOptions& options, const std::vector<std::string>& parts,
                      const LabelSpec& labels = kClasses, const std::vector<SampleSpec>& inputs = kOne) {
    try {
      read(options, labels, inputs);
      ADD_FAILURE() << "taken: " << parts[0];
    } catch (const Error& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  void expect_set(const Dataset& set, const std::vector<float>& x = kX) {
    EXPECT_EQ(set.rows, 3);
    EXPECT_EQ(set.inputs[0].dims, (std::vector<int64_t>{3, 2, 1}));
    EXPECT_EQ(set.inputs[0].values<float>(), x);
    EXPECT_EQ(set.labels.values<int32_t>(), kY);
  }

  TemporaryDirectory folder_;
  std::vector<std::string> notes_;
  std::string x_ = npy("x.npy", array<float>({3, 2, 1}, kX)), y_ = npy("y.npy", array<int32_t>({3}, kY));
};

TEST_F(dataset, every_format_gives_the_same_set) {
  expect_set(read({.data = x_, .labels = y_}));
  write_npz(folder_ / "a.npz", {{"y", array<int64_t>({3, 1}, {2, 0, 1})}, {"pixels", array<float>({3, 2, 1}, kX)}});
  expect_set(read({.data = folder_ / "a.npz"}));
  write_npz(folder_ / "b.npz", {{"other", array<uint8_t>({3}, {2, 0, 1})}, {"images", array<float>({3, 2, 1}, kX)}});
  expect_set(read({.data = folder_ / "b.npz", .labels = "other"}));
  expect_set(read({.data = text("a.csv", "0.5,1,2\n2,3,0\n4,250,1\n")}));
  expect_set(read({.data = text("b.csv", "a,label,b\n0.5,2,1\n2,0,3\n4,1,250\n")}));
  expect_set(read({.data = text("c.csv", "a,digit,b\n0.5,2,1\n2,0,3\n4,1,250\n"), .labels = "digit"}));
  expect_set(read({.data = text("d.csv", "0.5,1\n2,3\n4,250\n"), .labels = text("y.csv", "what\n2\n0\n1\n")}));
  expect_set(read({.data = x_, .labels = npy("hot.npy", array<uint8_t>({3, 3}, {0, 0, 1, 1, 0, 0, 0, 1, 0}))}));
  EXPECT_EQ(notes_.size(), 1u);
  write_bytes(folder_ / "idx", {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 255});
  expect_set(read({.data = folder_ / "idx", .labels = y_, .cast = true}), {1, 2, 3, 4, 5, 255});
  expect_set(read({.data = folder_ / "idx", .labels = y_, .scale = 1.0 / 255}),
             {1 / 255.f, 2 / 255.f, 3 / 255.f, 4 / 255.f, 5 / 255.f, 1});
}

TEST_F(dataset, rows_are_bytes) {
  const Dataset set = read({.data = x_, .labels = y_});
  float x[2];
  ASSERT_EQ(set.row(0, 2).size(), sizeof x);
  std::memcpy(x, set.row(0, 2).data(), sizeof x);
  EXPECT_EQ(x[1], 250);
  int32_t label;
  ASSERT_EQ(set.label(0).size(), sizeof label);
  std::memcpy(&label, set.label(0).data(), sizeof label);
  EXPECT_EQ(label, 2);
}

TEST_F(dataset, two_inputs_are_matched_by_name_and_then_by_shape) {
  const std::vector<SampleSpec> two = {{.name = "a", .dims = {2}}, {.name = "b", .dims = {1}}};
  const NpyArray a = array<float>({3, 2}, kX), b = array<float>({3, 1}, {7, 8, 9}), y = array<int32_t>({3}, kY);
  write_npz(folder_ / "named.npz", {{"b", b}, {"labels", y}, {"a", a}, {"more", a}});
  EXPECT_EQ(read({.data = folder_ / "named.npz"}, kClasses, two).inputs[1].values<float>()[2], 9);
  EXPECT_EQ(notes_, (std::vector<std::string>{"more is no input: not used"}));
  write_npz(folder_ / "shape.npz", {{"q", b}, {"p", a}, {"labels", y}});
  EXPECT_EQ(read({.data = folder_ / "shape.npz"}, kClasses, two).inputs[1].values<float>()[2], 9);
  EXPECT_EQ(notes_.size(), 2u);
  write_npz(folder_ / "two.npz", {{"q", a}, {"p", a}, {"labels", y}});
  expect_refusal({.data = folder_ / "two.npz"}, {"holds no array a, and not just one of its shape", "arrays: q, p"},
                 kClasses, two);
  expect_refusal({.data = x_, .labels = y_}, {"is one array, but the network has 2 inputs"}, kClasses, two);
  write_npz(folder_ / "count.npz", {{"a", a}, {"b", array<float>({2, 1}, {7, 8})}, {"labels", y}});
  expect_refusal({.data = folder_ / "count.npz"}, {"holds 2 rows", "holds 3 rows"}, kClasses, two);
}

TEST_F(dataset, targets_are_numbers_or_classes_or_an_input) {
  const std::vector<float> targets = {0, 0, 1, 1, 0, 0, 0, 1, 0};
  EXPECT_EQ(read({.data = x_, .labels = npy("t.npy", array<float>({3, 3}, targets))}, kTargets).labels.values<float>(),
            targets);
  EXPECT_EQ(read({.data = x_, .labels = y_}, kTargets).labels.values<float>(), targets);
  EXPECT_EQ(notes_.size(), 1u);
  const LabelSpec one = {.sample = {.name = "labels", .dims = {1}}};
  EXPECT_EQ(read({.data = x_, .labels = y_}, one).labels.values<float>(), (std::vector<float>{2, 0, 1}));
  const LabelSpec same = {.sample = {.name = "labels", .dims = {2, 1}}};
  EXPECT_EQ(read({.data = x_, .labels = "pixels"}, same).labels.values<float>(), kX);
  const std::string csv = text("x.csv", "0.5,1\n2,3\n4,250\n");
  EXPECT_EQ(read({.data = csv, .labels = "pixels"}, same).labels.values<float>(), kX);
  const Dataset half = read({.data = csv, .labels = "pixels", .scale = 0.5}, same);
  EXPECT_EQ(half.labels.values<float>(), half.inputs[0].values<float>());
  expect_refusal({.data = x_, .labels = npy("w.npy", array<float>({3, 2}, kX))},
                 {"holds [3, 2], but the loss takes targets float32 [3] per row"}, kTargets);
  expect_refusal({.data = x_, .labels = npy("d.npy", array<double>({3, 3}, std::vector<double>(9)))},
                 {"holds float64", "astype(numpy.float32)"}, kTargets);
  std::vector<float> bad = targets;
  bad[4] = std::numeric_limits<float>::infinity();
  expect_refusal({.data = x_, .labels = npy("i.npy", array<float>({3, 3}, bad))}, {"the number at [1, 1] is inf"},
                 kTargets);
}

// pandas and Keras's to_categorical save labels as floats. Their values do not change.
TEST_F(dataset, labels_in_floats_that_are_whole_are_classes) {
  expect_set(read({.data = x_, .labels = npy("f.npy", array<float>({3}, {2, 0, 1}))}));
  expect_set(read({.data = x_, .labels = npy("d.npy", array<double>({3, 1}, {2, 0, 1}))}));
  const LabelSpec two = {.sample = {.name = "labels", .type = ElementType::kInt32, .dims = {}}, .classes = 2};
  NpyArray bools = array<uint8_t>({3}, {1, 0, 1});
  bools.type = ElementType::kBool;
  EXPECT_EQ(read({.data = x_, .labels = npy("b.npy", bools)}, two).labels.values<int32_t>(),
            (std::vector<int32_t>{1, 0, 1}));
}

TEST_F(dataset, targets_are_cast_where_samples_are_and_no_number_changes) {
  const std::string whole = npy("w.npy", array<double>({3, 3}, {0, 0, 0.5, 1, 0, 0, 0, 1, 0}));
  expect_refusal({.data = x_, .labels = whole}, {"holds float64", "--cast-samples"}, kTargets);
  EXPECT_EQ(read({.data = x_, .labels = whole, .cast = true}, kTargets).labels.values<float>()[2], 0.5f);
  const std::string odd = npy("o.npy", array<double>({3, 3}, {0, 0, 0.1, 1, 0, 0, 0, 1, 0}));
  expect_refusal({.data = x_, .labels = odd, .cast = true}, {"o.npy: element 2 is 0.1"}, kTargets);
}

TEST_F(dataset, int8_inputs_take_reals_by_their_scale_and_codes_as_they_are) {
  const std::vector<SampleSpec> coded = {
      {.name = "pixels", .type = ElementType::kInt8, .dims = {2, 1}, .scales = Scales{{0.5f}, {-10}, 0}}};
  EXPECT_EQ(read({.data = x_, .labels = y_}, kClasses, coded).inputs[0].values<int8_t>(),
            (std::vector<int8_t>{-9, -8, -6, -4, -2, 127}));
  const std::vector<int8_t> codes = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(read({.data = npy("c.npy", array<int8_t>({3, 2, 1}, codes)), .labels = y_}, kClasses, coded)
                .inputs[0]
                .values<int8_t>(),
            codes);
}

TEST_F(dataset, types_and_shapes_that_do_not_fit_are_refused) {
  expect_refusal({.data = npy("s.npy", array<float>({3, 2}, kX)), .labels = y_},
                 {"s.npy: holds [3, 2], but the input pixels takes float32 [2, 1] per row"});
  expect_refusal({.data = npy("t.npy", array<float>({3, 1, 2}, kX)), .labels = y_}, {"holds [3, 1, 2]"});
  expect_refusal({.data = npy("u.npy", array<uint8_t>({3, 2, 1}, {1, 2, 3, 4, 5, 6})), .labels = y_},
                 {"holds uint8, but", "--cast-samples", "--scale"});
  expect_refusal({.data = npy("d.npy", array<double>({3, 2, 1}, std::vector<double>(6))), .labels = y_},
                 {"holds float64, but", "astype"});
  expect_refusal({.data = npy("e.npy", array<float>({0, 2, 1}, {})), .labels = y_}, {"holds no row"});
  expect_refusal({.data = text("w.csv", "1,2,3,0\n"), .labels = ""}, {"holds [1, 3], but the input pixels"});
  expect_refusal({.data = text("n.csv", "1\n2\n"), .labels = ""}, {"has one column: nothing beside the labels"});
  expect_refusal({.data = folder_ / "nowhere.npy", .labels = y_}, {"nowhere.npy", "cannot be opened"});
}

TEST_F(dataset, numbers_that_are_not_finite_are_refused_by_place) {
  std::vector<float> x = kX;
  x[3] = std::numeric_limits<float>::quiet_NaN();
  expect_refusal({.data = npy("n.npy", array<float>({3, 2, 1}, x)), .labels = y_},
                 {"n.npy: the number at [1, 1, 0] is nan"});
  expect_refusal({.data = text("n.csv", "1,2,0\n3,-inf,1\n")}, {"the number at [1, 1, 0] is -inf"});
  expect_refusal({.data = text("o.csv", "1,2,0\n3,1e39,1\n")}, {"the number at [1, 1, 0] is inf"});
  expect_refusal({.data = text("l.csv", "1,2,0\n3,4,nan\n")}, {"the number at [1] is nan"});
}

TEST_F(dataset, labels_that_do_not_fit_are_refused) {
  const auto refused = [&](const NpyArray& labels, const std::vector<std::string>& parts,
                           const LabelSpec& spec = kClasses) {
    expect_refusal({.data = x_, .labels = npy("l.npy", labels)}, parts, spec);
  };
  refused(
      array<int32_t>({3}, {0, 3, 1}),
      {"l.npy: the label at [1] is 3, but the loss takes the number of a class, 0 to 2", "number the classes from 0"});
  refused(array<int32_t>({3}, {0, -1, 1}), {"the label at [1] is -1"});
  refused(array<int64_t>({3}, {0, int64_t{1} << 40, 1}), {"the label at [1] is 1099511627776"});
  refused(array<int32_t>({2}, {0, 1}), {"holds 2 labels", "holds 3 rows", "one label for each row"});
  refused(array<int32_t>({3, 2}, {0, 1, 0, 1, 0, 1}), {"holds [3, 2]", "one integer per row, or one-hot rows"});
  refused(array<int32_t>({}, {0}), {"holds []"});
  refused(array<int32_t>({0}, {}), {"holds no label"});
  refused(array<float>({3}, {0, 1.5, 2}), {"element 1 is 1.5, wanted integers"});
  refused(array<double>({3}, {0, 1, 1e300}), {"element 2 is 1e+300, wanted integers"});
  refused(array<uint8_t>({3, 3}, {0, 0, 1, 1, 1, 0, 0, 1, 0}), {"the numbers up to [1, 1] are not one 1 among zeros"});
  refused(array<uint8_t>({3, 3}, {0, 0, 1, 0, 0, 0, 0, 1, 0}), {"the numbers up to [1, 2] are not one 1 among zeros"});
  expect_refusal({.data = text("h.csv", "1,2,0\n3,4,0.5\n")}, {"the label at [1] is 0.5"});
  expect_refusal({.data = x_}, {"holds no labels", "--labels"});
  expect_refusal({.data = x_, .labels = "nothing"}, {"--labels nothing: is no file, and nothing in"});
  LabelSpec ignoring = kClasses;
  ignoring.ignored = -1;
  EXPECT_EQ(
      read({.data = x_, .labels = npy("g.npy", array<int32_t>({3}, {0, -1, 1}))}, ignoring).labels.values<int32_t>()[1],
      -1);
  refused(array<int32_t>({3}, {-1, -1, -1}), {"every label is -1"}, ignoring);
}

TEST(scale, is_a_number_or_a_fraction) {
  EXPECT_EQ(parse_scale("0.5", "--scale"), 0.5);
  EXPECT_EQ(parse_scale("1/255", "--scale"), 1.0 / 255);
  for (const char* bad : {"", "0", "x", "1/", "/2", "1/0", "0/1", "1/2/3", "nan", "inf", "1 / 2"})
    EXPECT_THROW(parse_scale(bad, "--scale"), Error) << bad;
}

}  // namespace
}  // namespace nacre::tools

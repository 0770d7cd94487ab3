// Tests calibration data from files: accepted files, and refusals by name.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/calibration/samples.h"

namespace nacre::tools {
namespace {

const std::string kOne = R"(graph "net" batch=1
value %x float32 [1, 2, 3] batched
value %y float32 [1, 2, 3] batched
input "pixels" %x
output "y" %y
%y = clamp(%x) clamp=1 high=inf name="relu"
)";

const std::string kTwo = R"(graph "net" batch=1
value %a float32 [1, 2] batched
value %b float32 [1, 2] batched
value %y float32 [1, 2] batched
input "in/a" %a
input "b" %b
output "y" %y
%y = add(%a, %b) name="sum"
)";

template <class T>
NpyArray array(std::vector<int64_t> dims, const std::vector<T>& x) {
  NpyArray a = {.type = Element<T>::kType,
                .dims = std::move(dims),
                .data = std::vector<uint8_t>(x.size() * sizeof(T)),
                .place = "test"};
  if (!x.empty()) std::memcpy(a.data.data(), x.data(), a.data.size());
  return a;
}

NpyArray counted_up(std::vector<int64_t> dims) {
  std::vector<float> x;
  NpyArray shape = {.type = ElementType::kFloat32, .dims = dims, .data = {}, .place = {}};
  for (int64_t i = 0; i < shape.elements(); ++i) x.push_back(float(i));
  return array(std::move(dims), x);
}

class samples : public testing::Test {
 protected:
  std::string file(const std::string& name, const NpyArray& a) {
    write_npy(folder_ / name, a);
    return folder_ / name;
  }
  void expect_refusal(const std::string& graph, const std::string& path, const std::vector<std::string>& parts,
                      const SampleOptions& options = {}) {
    try {
      read_samples(parse(graph), path, options);
      ADD_FAILURE() << path << " was taken";
    } catch (const Error& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  TemporaryDirectory folder_;
  Graph one_ = parse(kOne), two_ = parse(kTwo);
};

TEST_F(samples, one_npy_is_one_sample_or_several) {
  for (const auto& [dims, count] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
           {{2, 3}, 1}, {{1, 2, 3}, 1}, {{5, 2, 3}, 5}, {{5, 1, 2, 3}, 5}}) {
    const Samples found = read_samples(one_, file("x.npy", counted_up(dims)));
    EXPECT_EQ(found.count, count);
    EXPECT_EQ(found.inputs[0].dims, (std::vector<int64_t>{count, 2, 3}));
  }
}

TEST_F(samples, a_npz_holds_an_array_per_input) {
  write_npz(folder_ / "d.npz", {{"b", counted_up({4, 2})}, {"in/a", array<float>({4, 2}, std::vector<float>(8, 1))}});
  const Samples found = read_samples(two_, folder_ / "d.npz");
  EXPECT_EQ(found.count, 4);
  EXPECT_EQ(found.inputs[0].values<float>()[7], 1);
  EXPECT_EQ(found.inputs[1].values<float>()[7], 7);
  write_npz(folder_ / "one.npz", {{"arr_0", counted_up({4, 2, 3})}});
  EXPECT_EQ(read_samples(one_, folder_ / "one.npz").count, 4);
}

TEST_F(samples, a_folder_holds_a_file_per_input) {
  file("in_a.npy", counted_up({4, 2}));
  file("b.npy", counted_up({4, 2}));
  EXPECT_EQ(read_samples(two_, folder_.path().string()).count, 4);
}

TEST_F(samples, a_folder_of_one_input_holds_samples_in_order_of_names) {
  file("b.npy", array<float>({2, 3}, std::vector<float>(6, 2)));
  file("a.npy", array<float>({2, 2, 3}, std::vector<float>(12, 1)));
  file("c.npy", counted_up({1, 2, 3}));
  const Samples found = read_samples(one_, folder_.path().string());
  EXPECT_EQ(found.count, 4);
  EXPECT_EQ(found.inputs[0].values<float>()[11], 1);
  EXPECT_EQ(found.inputs[0].values<float>()[12], 2);
  EXPECT_EQ(found.inputs[0].values<float>()[23], 5);
}

TEST_F(samples, of_a_batch_are_single_rows) {
  std::string text = kOne;
  for (size_t at = 0; (at = text.find("[1, 2, 3]", at)) != std::string::npos;) text.replace(at, 9, "[4, 2, 3]");
  text.replace(text.find("batch=1"), 7, "batch=4");
  EXPECT_EQ(read_samples(parse(text), file("x.npy", counted_up({7, 2, 3}))).count, 7);
}

TEST_F(samples, codes_of_a_quantized_input_are_decoded) {
  std::string text = kOne;
  text.replace(text.find("batched"), 7, "batched codes=int8 axis=0 scale=[0.5] zero=[-128]");
  const Graph graph = parse(text);
  const Samples found = read_samples(graph, file("x.npy", array<int8_t>({2, 3}, {-128, -127, 0, 1, 2, 127})));
  EXPECT_EQ(found.inputs[0].values<float>(), (std::vector<float>{0, 0.5, 64, 64.5, 65, 127.5}));
  EXPECT_EQ(read_samples(graph, file("x.npy", counted_up({2, 3}))).count, 1);  // reals too
  expect_refusal(text, file("x.npy", array<uint8_t>({2, 3}, {0, 1, 2, 3, 4, 5})),
                 {"holds uint8", "the int8 codes of its quantizer"});
  expect_refusal(text, file("x.npy", array<float>({2, 3}, {0, 1, 2, 3, 128.5, 5})),
                 {"element 4 of sample 1 is 128.5", "codes its input pixels for [0, 127.5]"});
}

TEST_F(samples, a_type_is_cast_only_where_asked_for_and_no_number_changes) {
  const std::string bytes = file("x.npy", array<uint8_t>({2, 3}, {0, 1, 2, 3, 4, 255}));
  expect_refusal(kOne, bytes, {"holds uint8, but the input pixels takes float32 [2, 3]", "--cast-inputs"});
  EXPECT_EQ(read_samples(one_, bytes, {.cast = true}).inputs[0].values<float>()[5], 255);
  expect_refusal(kOne, file("d.npy", array<double>({2, 3}, {0, 1, 2, 3, 0.1, 5})), {"element 4 is 0.1"},
                 {.cast = true});
}

TEST_F(samples, wrong_shapes_names_and_counts_are_refused) {
  expect_refusal(kOne, file("x.npy", counted_up({3, 2})),
                 {"x.npy: holds [3, 2], but the input pixels takes float32 [2, 3]"});
  expect_refusal(kOne, file("x.npy", counted_up({5, 3, 2})), {"holds [5, 3, 2]"});
  expect_refusal(kOne, file("x.npy", counted_up({0, 2, 3})), {"holds no sample"});
  expect_refusal(kTwo, file("x.npy", counted_up({4, 2})), {"the network has 2 inputs: in/a, b"});
  write_npz(folder_ / "d.npz", {{"b", counted_up({4, 2})}, {"c", counted_up({4, 2})}});
  expect_refusal(kTwo, folder_ / "d.npz", {"holds an array c", "inputs: in/a, b"});
  write_npz(folder_ / "d.npz", {{"b", counted_up({4, 2})}});
  expect_refusal(kTwo, folder_ / "d.npz", {"holds no array for the input in/a"});
  write_npz(folder_ / "d.npz", {{"in/a", counted_up({4, 2})}, {"b", counted_up({3, 2})}});
  expect_refusal(kTwo, folder_ / "d.npz", {"holds 3 samples", "holds 4 samples"});
}

TEST_F(samples, a_folder_with_other_files_is_refused) {
  file("in_a.npy", counted_up({4, 2}));
  file("c.npy", counted_up({4, 2}));
  expect_refusal(kTwo, folder_.path().string(), {"2 .npy files, 1 of them", "in_a.npy, b.npy"});
  expect_refusal(kTwo, folder_ / "nowhere.npy", {"nowhere.npy"});
  const TemporaryDirectory empty;
  expect_refusal(kTwo, empty.path().string(), {"holds no .npy file"});
}

TEST_F(samples, numbers_that_are_not_finite_are_refused_by_place) {
  std::vector<float> x(12, 1);
  x[7] = std::numeric_limits<float>::quiet_NaN();
  expect_refusal(kOne, file("x.npy", array<float>({2, 2, 3}, x)), {"x.npy: element 1 of sample 2 is nan"});
  x[7] = -std::numeric_limits<float>::infinity();
  expect_refusal(kOne, file("x.npy", array<float>({2, 2, 3}, x)), {"element 1 of sample 2 is -inf"});
}

TEST_F(samples, data_that_are_one_number_are_refused) {
  expect_refusal(kOne, file("x.npy", array<float>({2, 2, 3}, std::vector<float>(12, 3))), {"every number is the same"});
}

}  // namespace
}  // namespace nacre::tools

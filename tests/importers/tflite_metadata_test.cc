// Tests labels and normalisation in the metadata of a TFLite file. Damaged metadata are left out.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/importers/tflite_builder.h"
#include "tflite_metadata_generated.h"
#include "tools/files/npy.h"
#include "tools/importers/importer.h"

namespace nacre::tools::tflite {
namespace {

// Makes the metadata of a network with one input and one output.
std::vector<uint8_t> make_metadata(const std::vector<float>& mean, const std::vector<float>& std,
                                   const std::string& labels) {
  flatbuffers::FlatBufferBuilder b;
  const auto options = CreateNormalizationOptionsDirect(b, &mean, &std);
  const std::vector units = {CreateProcessUnit(b, ProcessUnitOptions::NormalizationOptions, options.Union())};
  const std::vector files = {
      CreateAssociatedFileDirect(b, labels.c_str(), nullptr, AssociatedFileType::TENSOR_AXIS_LABELS)};
  const std::vector inputs = {CreateTensorMetadataDirect(b, "image", nullptr, nullptr, 0, &units)};
  const std::vector outputs = {CreateTensorMetadataDirect(b, "probability", nullptr, nullptr, 0, nullptr, 0, &files)};
  const std::vector graphs = {CreateSubGraphMetadataDirect(b, nullptr, nullptr, &inputs, &outputs)};
  b.Finish(CreateModelMetadataDirect(b, "net", nullptr, nullptr, &graphs), "M001");
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

std::map<std::string, std::string> metadata_of(const std::vector<uint8_t>& file) {
  const Graph graph = import_network(file, "net.tflite", {});
  return {graph.metadata.begin(), graph.metadata.end()};
}

std::vector<uint8_t> described(const std::vector<uint8_t>& metadata) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 4}), y = b.activation("y", {1, 4});
  b.op(BuiltinOperator::TANH, {x}, {y});
  b.metadata = metadata;
  return b.finish({x}, {y});
}

// Makes a zip archive with one text file. npz_bytes names the member labels.npy.
std::vector<uint8_t> zipped(const std::string& text) {
  NpyArray array = {ElementType::kUint8, {int64_t(text.size())}, ElementBytes(text.begin(), text.end())};
  return npz_bytes({{"labels", array}});
}

TEST(tflite_metadata, normalisation_and_labels_become_metadata_of_the_model) {
  std::vector<uint8_t> file = described(make_metadata({127.5f}, {128}, "labels.npy"));
  auto found = metadata_of(file);
  EXPECT_EQ(found["input.x.mean"], "127.5");
  EXPECT_EQ(found["input.x.std"], "128");
  EXPECT_FALSE(found.contains("labels")) << "the archive is not there";
  const std::vector<uint8_t> zip = zipped("nobody\r\nperson\n\n");
  file.insert(file.end(), zip.begin(), zip.end());
  found = metadata_of(file);
  ASSERT_TRUE(found.contains("labels"));
  EXPECT_TRUE(found["labels"].ends_with("nobody\nperson")) << found["labels"];
}

TEST(tflite_metadata, of_each_channel) {
  auto found = metadata_of(described(make_metadata({1, 2, 3}, {4, 5, 6}, "none")));
  EXPECT_EQ(found["input.x.mean"], "1,2,3");
  EXPECT_EQ(found["input.x.std"], "4,5,6");
}

TEST(tflite_metadata, what_cannot_be_used_is_left_out) {
  const float nan = std::nanf("");
  EXPECT_FALSE(metadata_of(described(make_metadata({0}, {0}, "none"))).contains("input.x.std"));
  EXPECT_FALSE(metadata_of(described(make_metadata({nan}, {1}, "none"))).contains("input.x.mean"));
  EXPECT_FALSE(metadata_of(described(make_metadata({}, {}, "none"))).contains("input.x.mean"));
}

// The unit has the type of its options, but no options table.
TEST(tflite_metadata, options_that_are_not_there_are_left_out) {
  flatbuffers::FlatBufferBuilder b;
  const std::vector units = {CreateProcessUnit(b, ProcessUnitOptions::NormalizationOptions, 0)};
  const std::vector inputs = {CreateTensorMetadataDirect(b, "image", nullptr, nullptr, 0, &units)};
  const std::vector graphs = {CreateSubGraphMetadataDirect(b, nullptr, nullptr, &inputs)};
  b.Finish(CreateModelMetadataDirect(b, "net", nullptr, nullptr, &graphs), "M001");
  EXPECT_FALSE(
      metadata_of(described({b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()})).contains("input.x.mean"));
}

TEST(tflite_metadata, bytes_that_are_damaged_change_nothing_of_the_network) {
  const std::vector<uint8_t> whole = make_metadata({127.5f}, {128}, "labels.npy");
  const size_t steps = import_network(described(whole), "net.tflite", {}).nodes.size();
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> damaged = whole;
      damaged[i] = uint8_t(damaged[i] ^ flip);
      std::vector<uint8_t> file = described(damaged);
      const std::vector<uint8_t> zip = zipped("a\nb");
      file.insert(file.end(), zip.begin(), zip.end() - std::ptrdiff_t(i % 40));
      EXPECT_EQ(import_network(file, "net.tflite", {}).nodes.size(), steps);
    }
}

}  // namespace
}  // namespace nacre::tools::tflite

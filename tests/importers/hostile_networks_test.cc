// Imports small networks that ask for much: archives with false sizes or with names outside the folder, deep nesting
// of models, functions and branches, and constants that double. Each must be refused with one sentence. A test may
// use at most kMostSeconds of processor time and kMostMegabytes more memory than before it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "tests/importers/keras_builder.h"
#include "tests/importers/onnx_graphs.h"
#include "tests/refused_with.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {
namespace {

class hostile_networks : public testing::Test {
 protected:
  static constexpr double kMostSeconds = 20;  // allows for a sanitized, unoptimized build
  static constexpr double kMostMegabytes = 1024;

  struct Used {
    double seconds, megabytes;
  };

  static Used used() {
    rusage now;
    getrusage(RUSAGE_SELF, &now);
    const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
    return {seconds(now.ru_utime) + seconds(now.ru_stime), double(now.ru_maxrss) / 1024};
  }

  void TearDown() override {
    EXPECT_LT(used().seconds - before_.seconds, kMostSeconds);
    EXPECT_LT(used().megabytes - before_.megabytes, kMostMegabytes);
  }

 private:
  const Used before_ = used();
};

// ---- Archives

std::vector<uint8_t> bytes_of_text(const std::string& text) { return {text.begin(), text.end()}; }

std::string refused_archive(const std::vector<uint8_t>& bytes) {
  return refused_with([&] { import_keras_archive(bytes, "m.keras"); }, kBadInput);
}

TEST_F(hostile_networks, names_that_lead_out_of_an_archive_are_refused) {
  for (const char* name : {"../config.json", "/etc/passwd", "a/../../b", "..", "C:b", "a\\..\\b"}) {
    const std::string text = refused_archive(zip_bytes({{"config.json", bytes_of_text("{}")}, {name, {1}}}));
    EXPECT_NE(text.find("leads out of the archive"), std::string::npos) << text;
  }
}

// Writes `size` as the uncompressed size into both records of the member `name`.
void claim_size(std::vector<uint8_t>& bytes, const std::string& name, uint32_t size) {
  constexpr struct {
    const char* signature;
    size_t size, name;  // offsets of the uncompressed size and of the name
  } kRecords[] = {{"PK\x03\x04", 22, 30}, {"PK\x01\x02", 24, 46}};
  int changed = 0;
  for (const auto& [signature, at, of_name] : kRecords)
    for (size_t i = 0; i + of_name + name.size() <= bytes.size(); ++i) {
      if (std::memcmp(&bytes[i], signature, 4) != 0 || std::memcmp(&bytes[i + of_name], name.data(), name.size()) != 0)
        continue;
      std::memcpy(&bytes[i + at], &size, sizeof size);
      ++changed;
    }
  EXPECT_EQ(changed, 2);
}

TEST_F(hostile_networks, archives_that_lie_about_sizes_are_refused) {
  const std::vector<uint8_t> whole =
      zip_bytes({{"config.json", bytes_of_text("{}")}, {"model.weights.h5", std::vector<uint8_t>(5000, 7)}}, true);
  for (const uint32_t size : {uint32_t{0}, uint32_t{4999}, uint32_t{5001}, uint32_t{1} << 30, UINT32_MAX - 1}) {
    std::vector<uint8_t> bytes = whole;
    claim_size(bytes, "model.weights.h5", size);
    EXPECT_TRUE(refused_archive(bytes).starts_with("m.keras")) << size;
  }
  std::vector<uint8_t> far = whole;
  claim_size(far, "model.weights.h5", uint32_t{1} << 30);
  EXPECT_NE(refused_archive(far).find("declares more bytes than an archive of its size may hold"), std::string::npos);
}

TEST_F(hostile_networks, configurations_nested_without_end_are_refused) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text = "{\"class_name\": ";
    for (int i = 0; i < 100'000; ++i) text += open;
    const std::vector<uint8_t> archive =
        zip_bytes({{"config.json", bytes_of_text(text)}, {"model.weights.h5", hdf5_bytes({})}});
    EXPECT_NE(refused_archive(archive).find("nested too deep"), std::string::npos) << open;
  }
}

// ---- Calls of calls

// Each of six nested models calls the next one twenty times: 64 million calls.
TEST_F(hostile_networks, models_that_call_models_end_in_a_sentence) {
  const auto reference = [](const std::string& layer, int node) {
    return "[[\"" + layer + "\", " + std::to_string(node) + ", 0, {}]]";
  };
  std::string inner = R"({"class_name": "ReLU", "name": "l", "config": {"name": "l"})";
  for (int depth = 0; depth < 6; ++depth) {
    std::string nodes = reference("x", 0);
    for (int i = 0; i < 19; ++i) nodes += ", " + reference("l", i);
    inner = R"({"class_name": "Functional", "name": "l", "config": {"name": "l", "layers": [
      {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2], "name": "x"},
       "inbound_nodes": []}, )" +
            inner + R"(, "inbound_nodes": [)" + nodes +
            R"(]}], "input_layers": [["x", 0, 0]], "output_layers": [["l", 19, 0]]})";
  }
  const std::vector<uint8_t> file = legacy_keras(inner + "}", {{"l", {{"l/none", {1}, {1}}}}});
  const std::string text = refused_with([&] { import_keras_hdf5(file, "m.h5"); }, kUnsupported);
  EXPECT_NE(text.find("calls layers more than 20000 times"), std::string::npos) << text;
}

// f0 calls f1 eight times, f1 calls f2 eight times, and so on: 8^13 calls of f13. f13 returns its input and also has
// 2,000 nodes.
OnnxBuilder laughs(bool refused_before) {
  OnnxBuilder b;
  b.model().add_opset_import()->set_domain("mine");
  b.input("x", {2});
  if (refused_before) b.node("Mystery", {"x"}, {"m"});
  b.node("f0", {refused_before ? "m" : "x"}, {"y"}).domain("mine");
  b.output("y");
  for (int depth = 0; depth < 14; ++depth) {
    const bool last = depth == 13;
    ::onnx::FunctionProto& f = *b.model().add_functions();
    f.set_name("f" + std::to_string(depth));
    f.set_domain("mine");
    f.add_input("v0");
    f.add_output(last ? "v0" : "v8");
    f.add_opset_import()->set_version(17);
    for (int i = 0; i < (last ? 2000 : 8); ++i) {
      ::onnx::NodeProto& node = *f.add_node();
      node.set_op_type(last ? "Relu" : "f" + std::to_string(depth + 1));
      if (!last) node.set_domain("mine");
      node.add_input("v" + std::to_string(i));
      node.add_output("v" + std::to_string(i + 1));
    }
  }
  return b;
}

TEST_F(hostile_networks, functions_that_call_functions_end_in_a_sentence) {
  EXPECT_NE(refusal(laughs(false)).find("more than 262,144 nodes when written out"), std::string::npos);
  EXPECT_NE(refusal(laughs(true)).find("m_node (Mystery)"), std::string::npos);
}

// Tests a function that calls itself, and two functions that call each other.
TEST_F(hostile_networks, functions_that_call_themselves_end_in_a_sentence) {
  for (const int count : {1, 2}) {
    OnnxBuilder b = laughs(false);
    b.model().mutable_functions()->DeleteSubrange(count, b.model().functions_size() - count);
    ::onnx::FunctionProto& last = *b.model().mutable_functions(count - 1);
    for (::onnx::NodeProto& node : *last.mutable_node()) node.set_op_type("f0");
    const std::string text = refusal(b);
    EXPECT_EQ(text, "f0: functions call each other more than 16 deep");
  }
}

// Nests 20 branches, the most that a file may have, and 1,000.
TEST_F(hostile_networks, branches_in_branches_end_in_a_sentence) {
  for (const auto& [depth, says] : {std::pair(20, "y (If): its condition: computed at run time (c)"),
                                    {1000, "graphs in graphs, more than 20 deep"}}) {
    OnnxBuilder b;
    b.input("x", {2});
    b.input("c", {}, {}, TensorProto::BOOL);
    ::onnx::GraphProto* graph = b.model().mutable_graph();
    for (int i = 0; i < depth; ++i) {
      ::onnx::NodeProto& node = *graph->add_node();
      node.set_op_type(i + 1 < depth ? "If" : "Mystery");
      node.add_input(i + 1 < depth ? "c" : "x");
      node.add_output("y");
      if (i > 0) graph->add_output()->set_name("y");
      if (i + 1 == depth) break;
      ::onnx::AttributeProto& branch = *node.add_attribute();
      branch.set_name("then_branch");
      branch.set_type(::onnx::AttributeProto::GRAPH);
      graph = branch.mutable_g();
    }
    b.output("y");
    const std::string text = refusal(b);
    EXPECT_NE(text.find(says), std::string::npos) << text;
  }
}

// ---- Constants

TEST_F(hostile_networks, constants_that_double_end_in_a_sentence) {
  OnnxBuilder b;
  b.filled("c0", {1024}, 1);
  for (int i = 0; i < 40; ++i) {
    const std::string from = "c" + std::to_string(i);
    b.node("Concat", {from, from}, {"c" + std::to_string(i + 1)}).integer("axis", 0);
  }
  b.input("x", {1});
  b.node("Add", {"x", "c40"}, {"y"});
  b.output("y");
  const std::string text = refusal(b);
  EXPECT_TRUE(text.find("the limit is 26") != std::string::npos) << text;
}

TEST_F(hostile_networks, operators_on_constants_ask_before_they_compute) {
  constexpr int64_t kFar = int64_t{1} << 30;
  const std::pair<const char*, std::vector<std::string>> nodes[] = {{"Range", {"zero", "far", "one"}},
                                                                    {"Expand", {"c", "wide"}},
                                                                    {"Tile", {"c", "wide"}},
                                                                    {"ConstantOfShape", {"wide"}},
                                                                    {"OneHot", {"zeros", "far", "pair"}},
                                                                    {"MatMul", {"column", "row"}},
                                                                    {"Pad", {"c", "pads"}},
                                                                    {"Einsum", {"column", "row"}},
                                                                    {"Add", {"column", "row"}},
                                                                    {"BlackmanWindow", {"far"}},
                                                                    {"CumSum", {"spread", "zero"}},
                                                                    {"NonZero", {"spread"}}};
  for (const auto& [op, inputs] : nodes) {
    OnnxBuilder b;
    b.integers("zero", {}, {0});
    b.integers("one", {}, {1});
    b.integers("far", {}, {kFar});
    b.integers("zeros", {1}, {0});
    b.filled("c", {1, 1}, 1);
    b.integers("wide", {2}, {1 << 15, 1 << 15});
    b.integers("pads", {4}, {1 << 15, 1 << 15, 0, 0});
    b.filled("pair", {2}, 1);
    b.filled("column", {1 << 15, 1}, 1);
    b.filled("row", {1, 1 << 15}, 1);
    b.node("Expand", {"c", "wide"}, {"spread"});
    OnnxNode node = b.node(op, inputs, {"k"});
    if (std::string(op) == "Einsum") node.text("equation", "ij,jk->ik");
    b.input("x", {1});
    b.node("Cast", {"k"}, {"r"}).integer("to", TensorProto::FLOAT);
    b.node("Add", {"x", "r"}, {"y"});
    b.output("y");
    const std::string text = refusal(b);
    const auto says = [&](const char* part) { return text.find(part) != std::string::npos; };
    EXPECT_TRUE(says("computed at import would take ") || says("more than 2^31") || says("above 2^24"))
        << op << ": " << text;
  }
}

}  // namespace
}  // namespace nacre::tools

// Caches of keys and values as states of a stream: a decoder gives token by token the scores that it gives for the
// whole sequence at once. The tests cover three forms: a cache of fixed rows (TensorScatter), a past that grows
// (Attention), and onnxruntime's operator (GroupQueryAttention).
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compile/streamed.h"
#include "tests/importers/onnx_builder.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

constexpr int64_t kWords = 11, kHeads = 4, kPairs = 2, kFeatures = 4, kModel = 16, kDecoderLayers = 2, kPlaces = 80;
constexpr int64_t kTokens = 68;

using Extents = std::vector<int64_t>;
using ::onnx::TensorProto;

enum class Cached { kWhole, kFixed, kGrowing, kGroups };

// `rows` is the size of the past. For a whole sequence it is how many tokens a token sees, itself included.
struct DecoderForm {
  Cached kind;
  int64_t length, rows;
};

std::string numbered(const std::string& name, int64_t layer) { return name + std::to_string(layer); }

class DecoderFile {
 public:
  explicit DecoderFile(const DecoderForm& form) : form_(form), b_(24) {
    ::onnx::OperatorSetIdProto& import = *b_.model().add_opset_import();
    import.set_domain("com.microsoft");
    import.set_version(1);
    b_.input("ids", {1, form.length}, {}, TensorProto::INT64);
    weights("words", {kWords, kModel}, 1);
    weights("places", {kPlaces, kModel}, 2);
    positions();
    b_.node("Gather", {"words", "ids"}, {"of_words"});
    b_.node("Gather", {"places", "positions"}, {"of_places"});
    b_.node("Add", {"of_words", "of_places"}, {"h0"});
    for (int64_t layer = 0; layer < kDecoderLayers; ++layer) decoder_layer(layer);
    weights("head", {kModel, kWords}, 3);
    b_.node("MatMul", {numbered("h", kDecoderLayers), "head"}, {"y"});
    b_.output("y");
    for (int64_t layer = 0; layer < kDecoderLayers && form.kind != Cached::kWhole; ++layer)
      for (const char* name : {"k_new", "v_new"}) b_.output(numbered(name, layer));
  }

  Graph graph() const {
    Graph graph = import_onnx(b_.finish(), "decoder.onnx");
    check(graph);
    return graph;
  }

  std::vector<std::string> states() const {
    std::vector<std::string> all;
    for (int64_t layer = 0; layer < kDecoderLayers; ++layer)
      for (const char* name : {"k", "v"})
        all.push_back(numbered(name + std::string("_past"), layer) + "=" + numbered(name + std::string("_new"), layer));
    all.emplace_back("position=@position");
    if (form_.kind != Cached::kFixed) all.emplace_back("mask=@mask");
    return all;
  }

 private:
  void weights(const std::string& name, const Extents& dims, uint32_t seed) {
    std::vector<float> w(size_t(dims[0] * dims[1]), 0);
    for (float& v : w) v = float((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    for (float& v : w) v /= std::sqrt(float(kModel) / 4);
    b_.floats(name, dims, w);
  }

  // Adds positions [1, length]. A cache of fixed rows also gets the number of its rows afterwards.
  void positions() {
    std::vector<int64_t> steps;
    for (int64_t i = 0; i < form_.length; ++i) steps.push_back(i);
    b_.integers("steps", {1, form_.length}, steps);
    if (form_.kind == Cached::kWhole) return whole_mask();
    b_.input("position", {1}, {}, TensorProto::INT64);
    b_.node("Add", {"position", "steps"}, {"positions"});
    b_.integers("length", {}, {form_.length});
    b_.node("Add", {"position", "length"}, {"filled"});
    if (form_.kind == Cached::kFixed) return;
    const int64_t keys = form_.rows + (form_.kind == Cached::kGrowing ? form_.length : 0);
    b_.input("mask", {1, keys}, {}, TensorProto::INT64);
    b_.node("Cast", {"mask"}, {"seen"}).integer("to", TensorProto::BOOL);
    b_.integers("one", {}, {1});
    b_.node("ReduceSum", {"mask"}, {"sum"}).integer("keepdims", 0);
    b_.node("Sub", {"sum", "one"}, {"last"});
    b_.node("Cast", {"last"}, {"ends"}).integer("to", TensorProto::INT32);
    b_.integers("shape", {1}, {1});
    b_.node("Reshape", {"ends", "shape"}, {"lengths"});
    b_.codes("total", {}, {int(keys)}, TensorProto::INT32);
  }

  void whole_mask() {
    std::vector<int> seen;
    for (int64_t i = 0; i < form_.length; ++i)
      for (int64_t j = 0; j < form_.length; ++j) seen.push_back(j <= i && i - j < form_.rows ? 1 : 0);
    b_.codes("seen", {form_.length, form_.length}, seen, TensorProto::BOOL);
    b_.node("Identity", {"steps"}, {"positions"});
  }

  void decoder_layer(int64_t layer) {
    const std::string h = numbered("h", layer), next = numbered("h", layer + 1);
    const auto name = [&](const char* of) { return numbered(of, layer); };
    const std::pair<const char*, int64_t> parts[] = {{"q", kHeads}, {"k", kPairs}, {"v", kPairs}};
    uint32_t seed = uint32_t(10 + 10 * layer);
    for (const auto& [part, heads] : parts) {
      weights(name(part) + "w", {kModel, heads * kFeatures}, ++seed);
      b_.node("MatMul", {h, name(part) + "w"}, {name(part)});
    }
    for (const char* past : {"k_past", "v_past"})
      if (form_.kind != Cached::kWhole) b_.input(name(past), {1, kPairs, form_.rows, kFeatures});
    attention(layer);
    weights(name("o") + "w", {kModel, kModel}, ++seed);
    b_.node("MatMul", {name("a"), name("o") + "w"}, {name("o")});
    b_.node("Tanh", {name("o")}, {name("t")});
    b_.node("Add", {h, name("t")}, {next});
  }

  void attention(int64_t layer) {
    const auto name = [&](const char* of) { return numbered(of, layer); };
    const auto with_heads = [](OnnxNode node) { node.integer("q_num_heads", kHeads).integer("kv_num_heads", kPairs); };
    switch (form_.kind) {
      case Cached::kWhole:
        return with_heads(b_.node("Attention", {name("q"), name("k"), name("v"), "seen"}, {name("a")}));
      case Cached::kGrowing:
        return with_heads(b_.node("Attention",
                                  {name("q"), name("k"), name("v"), "seen", name("k_past"), name("v_past")},
                                  {name("a"), name("k_new"), name("v_new")}));
      case Cached::kGroups:
        b_.node("GroupQueryAttention",
                {name("q"), name("k"), name("v"), name("k_past"), name("v_past"), "lengths", "total"},
                {name("a"), name("k_new"), name("v_new")})
            .domain("com.microsoft")
            .integer("num_heads", kHeads)
            .integer("kv_num_heads", kPairs);
        return;
      case Cached::kFixed: break;
    }
    b_.integers(name("heads"), {4}, {1, form_.length, kPairs, kFeatures});
    for (const std::string part : {"k", "v"}) {
      const std::string x = numbered(part, layer);
      b_.node("Reshape", {x, name("heads")}, {x + "h"});
      b_.node("Transpose", {x + "h"}, {x + "t"}).ints("perm", {0, 2, 1, 3});
      b_.node("TensorScatter", {numbered(part + "_past", layer), x + "t", "position"},
              {numbered(part + "_new", layer)});
    }
    with_heads(b_.node("Attention", {name("q"), name("k_new"), name("v_new"), "", "", "", "filled"}, {name("a")}));
  }

  DecoderForm form_;
  OnnxBuilder b_;
};

std::vector<int64_t> token_ids() {
  std::vector<int64_t> ids;
  uint32_t seed = 1;
  for (int64_t i = 0; i < kTokens; ++i) ids.push_back(int64_t((seed = seed * 1664525u + 1013904223u) >> 16) % kWords);
  return ids;
}

std::vector<float> scores_of(const std::vector<uint8_t>& bytes) {
  std::vector<float> y(bytes.size() / sizeof(float));
  std::memcpy(y.data(), bytes.data(), y.size() * sizeof(float));
  return y;
}

std::vector<float> whole_sequence(int64_t seen) {
  Streamed whole(DecoderFile({Cached::kWhole, kTokens, seen}).graph());
  return scores_of(whole.run(bytes_of(token_ids())));
}

Streamed stream_of(const DecoderForm& form) {
  const DecoderFile file(form);
  Graph graph = file.graph();
  keep_states(graph, file.states());
  check(graph);
  return Streamed(std::move(graph));
}

void expect_as_at_once(const DecoderForm& form, int64_t seen) {
  const std::vector<float> expected = whole_sequence(seen);
  const std::vector<int64_t> ids = token_ids();
  Streamed stream = stream_of(form);
  for (int64_t t = 0; t < kTokens; t += form.length) {
    const std::vector<int64_t> now(ids.begin() + t, ids.begin() + t + form.length);
    const std::vector<float> y = scores_of(stream.run(bytes_of(now)));
    ASSERT_EQ(y.size(), size_t(form.length * kWords));
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(double(y[i]), double(expected[size_t(t * kWords) + i]), 1e-5) << "token " << t << ", word " << i;
  }
}

TEST(kept_caches, a_cache_of_fixed_rows_token_by_token) { expect_as_at_once({Cached::kFixed, 1, kTokens}, kTokens); }

TEST(kept_caches, a_past_that_grows_token_by_token) { expect_as_at_once({Cached::kGrowing, 1, kTokens}, kTokens); }

TEST(kept_caches, groups_of_queries_token_by_token) { expect_as_at_once({Cached::kGroups, 1, kTokens}, kTokens); }

TEST(kept_caches, groups_of_queries_four_tokens_by_four) { expect_as_at_once({Cached::kGroups, 4, kTokens}, kTokens); }

// The past holds 8 rows and the new token is the ninth: each layer sees the last 9 tokens.
TEST(kept_caches, a_past_that_is_full_slides) { expect_as_at_once({Cached::kGrowing, 1, 8}, 9); }

TEST(kept_caches, a_cache_of_fixed_rows_that_is_full_is_refused) {
  for (const Cached kind : {Cached::kFixed, Cached::kGroups}) {
    Streamed stream = stream_of({kind, 1, 3});
    const std::vector<uint8_t> token = bytes_of(std::vector<int64_t>{5});
    for (int run = 0; run < 3; ++run) stream.run(token);
    for (int again = 0; again < 2; ++again) EXPECT_THROW(stream.run(token), Error);
  }
}

}  // namespace
}  // namespace nacre::tools

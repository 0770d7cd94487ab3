// Rows of claim policy_sources: Keras's map of policies, keras/src/dtype_policies/dtype_policy_map.py.
#include "tests/claims/policy_sources.h"
#include "tools/policies/write_keras_json.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

// Makes the layers of the class's example: encoder/layer_0/dense, encoder/attention/query, decoder,
// decoder/attention.
Graph example() {
  Graph graph = parse(R"(graph "example" batch=1
value %x float32 [1, 4]
value %a float32 [1, 4]
value %b float32 [1, 4]
value %c float32 [1, 4]
value %d float32 [1, 4]
input "x" %x
%a = tanh(%x)
%b = sigmoid(%a)
%c = tanh(%b)
%d = sigmoid(%c)
output "d" %d
)");
  const char* const names[] = {"encoder/layer_0/dense", "encoder/attention/query", "decoder", "decoder/attention"};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i].name = names[i];
    graph.nodes[i].layer =
        graph.add_layer({.name = names[i], .source_op = find_rule(graph.nodes[i].op)->name, .policy = {}});
  }
  return graph;
}

std::string one(const std::string& name) {
  return R"({"class_name": "DTypePolicy", "config": {"name": ")" + name + R"("}})";
}

std::string map_of(const std::string& default_policy, const std::string& entries) {
  return R"({"class_name": "DTypePolicyMap", "config": {"default_policy": )" + default_policy + R"(, "policy_map": {)" +
         entries + "}}}";
}

std::string entry(const std::string& key, const std::string& policy) { return "\"" + key + "\": " + one(policy); }

// Returns the compute types of the four layers, from their steps in the file.
std::string types(const Wish& wish) {
  const Made made(wish, example());
  std::string text;
  for (const char* layer : {"encoder/layer_0/dense", "encoder/attention/query", "decoder", "decoder/attention"}) {
    const std::string of_step = made.types(layer);
    text += (text.empty() ? "" : " ") + of_step.substr(0, of_step.find(' '));
  }
  return text;
}

void map_gives(Checks& c, const std::string& file, const std::string& expected) {
  c.same(types({.file = file}), expected, "steps of the four layers");
}

void map_refuses(Checks& c, const std::string& file, const std::string& label, const std::string& reason) {
  const Said said = refusal_of({.file = file}, example());
  c.same(said.label, label, "refusal of " + file);
  c.that(said.sentence.find(reason) != std::string::npos, said.sentence);
}

void default_is_global(Checks& c) {
  const std::string map = map_of("null", entry("decoder", "float64"));
  map_gives(c, map, "float32 float32 float64 float32");
  const Made made({.policy = "bfloat16", .file = map}, example());
  c.same(made.types("decoder/attention"), "bfloat16 bfloat16", "a layer without a key under the global bfloat16");
  c.same(made.types("decoder"), "float64 float64", "the layer with one");
}

void names_are_erased(Checks& c) {
  const std::string map = map_of("null", R"("decoder": {"class_name": "DTypePolicy", "config": {"name": null}})");
  const Made made({.policy = "float64", .only = {"tanh"}, .file = map}, example());
  c.same(made.types("decoder"), "float64 float64", "an entry without a name under the global float64");
}

void unmatched_warns(Checks& c) {
  Graph graph = example();
  resolve_policies(graph, request_of({.file = map_of(one("float16"), entry("head", "float64"))}));
  c.that(graph.log.size() == 1 && graph.log[0].find("no layer of the network is named 'head'") != std::string::npos,
         "a line of the log");
  for (const Layer& layer : graph.layers) c.that(layer.policy.compute == ElementType::kFloat16, layer.name);
}

void default_is_a_map(Checks& c) {
  const std::string inner = map_of(one("bfloat16"), entry("decoder", "float64"));
  map_gives(c, map_of(inner, entry("encoder/.*", "float16")), "float16 float16 bfloat16 bfloat16");
  Graph graph = example();
  resolve_policies(graph, request_of({.file = map_of(inner, "")}));
  c.that(graph.log.size() == 1 && graph.log[0].find("only its own default counts") != std::string::npos, "a warning");
}

void written_and_read(Checks& c) {
  Graph graph = example();
  const PolicyRequest request = request_of(
      {.file = map_of(one("float32"), entry("encoder/.*", "float16") + ", " + entry("decoder", "bfloat16"))});
  resolve_policies(graph, request);
  const Json json = keras_policies_json(graph, request);
  c.that(json["class_name"] == Json("DTypePolicyMap"), "a map is written");
  map_gives(c, json.dump(), "float16 float16 bfloat16 float32");
}

void deleted(Checks& c) {
  const std::string map = map_of("null", entry("decoder", "float64") + ", " + entry("encoder/.*", "float16"));
  c.same(types({.set = {"decoder=source"}, .file = map}), "float16 float16 float32 float32",
         "steps after --set decoder=source");
}

void backtracking_ends(Checks& c) {
  std::string name(60, 'a');
  Graph graph = example();
  graph.layers[0].name = name + "!";
  resolve_policies(graph, request_of({.file = map_of(one("float16"), entry("(a+)+", "float64"))}));
  c.that(graph.layers[0].policy.compute == ElementType::kFloat16, "the pattern (a+)+ ends, and does not match");
}

const Capability kRows[] = {
    {"DTypePolicyMap, example 1", "An exact match is found and returned directly.",
     [](Checks& c) {
       map_gives(
           c,
           map_of(one("float32"), entry("encoder/layer_0/dense", "bfloat16") + ", " + entry("encoder/.*", "float16")),
           "bfloat16 float16 float32 float32");
     }},
    {"DTypePolicyMap, example 2", "A regex match is found for a child layer. It matches the \"encoder/.*\" pattern.",
     [](Checks& c) {
       map_gives(c, map_of(one("float32"), entry("encoder/.*", "float16")), "float16 float16 float32 float32");
     }},
    {"DTypePolicyMap, example 3",
     "No implicit prefix matching occurs. \"decoder/attention\" does not match the key \"decoder\".",
     [](Checks& c) {
       map_gives(c, map_of(one("float32"), entry("decoder", "bfloat16")), "float32 float32 bfloat16 float32");
     }},
    {"DTypePolicyMap.__getitem__", "uses `re.fullmatch` to find a policy",
     [](Checks& c) {
       map_gives(c, map_of(one("float32"), entry("coder.*", "float16") + ", " + entry("decode", "float64")),
                 "float32 float32 float32 float32");
     }},
    {"DTypePolicyMap.__getitem__", "If there were no matches, return the default.",
     [](Checks& c) {
       map_gives(c, map_of(one("bfloat16"), entry("decoder", "float16")), "bfloat16 bfloat16 float16 bfloat16");
     }},
    {"DTypePolicyMap.__getitem__", "ValueError: If the `key` matches more than one regex pattern in the map.",
     [](Checks& c) {
       map_refuses(
           c, map_of(one("float32"), entry("encoder/.*", "float16") + ", " + entry("encoder/attention/.*", "bfloat16")),
           "MultipleMatches", "layer 'encoder/attention/query' matches 2 rules");
     },
     Kind::kRefused},
    {"DTypePolicyMap.__getitem__", "Check for an exact match, before all patterns: it silences a conflict of theirs",
     [](Checks& c) {
       map_gives(c,
                 map_of(one("float32"), entry("encoder/.*", "float16") + ", " + entry(".*/query", "bfloat16") + ", " +
                                            entry("encoder/attention/query", "float64")),
                 "float16 float64 float32 float32");
     }},
    {"DTypePolicyMap.__init__", "If not specified, the value will default to `keras.config.dtype_policy()`.",
     default_is_global},
    {"DTypePolicyMap.get_config",
     "`default_policy=None` enables us to defer to `keras.config.dtype_policy()` during loading: "
     "names are None",
     names_are_erased},
    {"DTypePolicyMap.__setitem__", "{key} already exist in the DTypePolicyMap ... not use duplicated keys.",
     [](Checks& c) {
       map_refuses(c, map_of(one("float32"), entry("decoder", "float16") + ", " + entry("decoder", "bfloat16")),
                   "BadJson", "'decoder' twice");
     },
     Kind::kRefused},
    {"DTypePolicyMap.__setitem__", "Cannot interpret the assigned value by `keras.dtype_policies.get`.",
     [](Checks& c) {
       map_refuses(c, map_of(one("float32"), entry("decoder", "fp16")), "CannotConvert", "cannot convert 'fp16'");
     },
     Kind::kRefused},
    {"DTypePolicyMap.__setitem__", "policy = dtype_policies.get(policy): a quantized policy too",
     [](Checks& c) {
       const std::string int8 =
           R"("fc1": {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}})";
       const Made made({.file = map_of(one("bfloat16"), int8)});
       c.same(made.types("fc1"), "int8 int8 float32", "fc1");
       c.same(made.types("fc2"), "bfloat16 bfloat16 bfloat16", "fc2");
     }},
    {"DTypePolicyMap.__delitem__", "Let the dict to handle the key missing error: the entry is gone", deleted},
    {"DTypePolicyMap.__getitem__", "a key that no path asks for is silent", unmatched_warns, Kind::kDeparts,
     "a key that matches no layer is a warning, and everything else is done"},
    {"DTypePolicyMap.__init__",
     "`default_policy` cannot be a `DTypePolicyMap`. But deserialize passes the dict, which __init__ "
     "takes: its own default counts",
     default_is_a_map},
    {"DTypePolicyMap",
     "an entry that is a map itself: the layer's first call sees the default of the outer map, later ones that "
     "of the inner",
     [](Checks& c) {
       map_refuses(c, map_of(one("float32"), "\"decoder\": " + map_of(one("float16"), "")), "MapInMap", "join the two");
     },
     Kind::kRefused, "a map is no policy of one layer"},
    {"DTypePolicyMap.__init__", "If specified, `policy_map` must be a dict.",
     [](Checks& c) {
       map_refuses(c,
                   R"({"class_name": "DTypePolicyMap", "config": {"default_policy": null, "policy_map": ["decoder"]}})",
                   "WrongType", "an array, expected an object");
     },
     Kind::kRefused},
    {"DTypePolicyMap.get_config", "\"policy_map\": serialization_lib.serialize_keras_object(policy_map)",
     written_and_read},
    {"re.fullmatch", "patterns of Python's re: look-ahead, look-behind, back-references",
     [](Checks& c) {
       for (const char* key : {"(?=dec).*", "(?<!en)coder", "(d)\\\\1"})
         map_refuses(c, map_of(one("float32"), entry(key, "float16")), "BadPattern", "RE2 has no");
     },
     Kind::kRefused, "patterns match in time linear in the name, which these do not"},
    {"re.fullmatch", "a pattern such as (a+)+ takes exponential time", backtracking_ends, Kind::kDeparts,
     "every pattern ends in time linear in the name"},
};

}  // namespace

Source keras_map() { return {"Keras's map", kRows}; }

}  // namespace nacre::test::policy_sources

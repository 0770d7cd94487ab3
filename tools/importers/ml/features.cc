// Formulas for operators of ai.onnx.ml that change features and labels before and after a model.
//
// The formulas compute in float32, so an integer is exact up to 2^24. No tensor holds strings. If an operator gives
// out names, the network gives their indices (classes.h).
#include <algorithm>
#include <cmath>

#include "tools/importers/ml/classes.h"
#include "tools/importers/ml/trees.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

// Returns the float32 term y in the type of input 0.
Term in_type_of_input(Formula& f, const Source& source, const Term& y) {
  const OperandPtr& x = source.operand(0);
  const bool real = x->type == ElementType::kFloat32 && x->kept == ElementType::kNone;
  return real ? y : f("CastLike", {y, f.input(0)});
}

// Returns the numbers as a term: one number for all columns of the input, or one for each.
Term per_column(Formula& f, const Source& source, const std::vector<float>& numbers) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() == 0 || (numbers.size() != 1 && int64_t(numbers.size()) != x->dims.back()))
    source.malformed("has " + std::to_string(numbers.size()) + " numbers for the columns of its input");
  return f.numbers({int64_t(numbers.size())}, numbers);
}

// y = (x - offset) scale
void scaler(Import& import, const Source& source) {
  Formula f(import, source);
  Term y = real_input(f, source);
  if (source.has("offset")) y = f("Sub", {y, per_column(f, source, listed_floats(source, "offset"))});
  if (source.has("scale")) y = f("Mul", {y, per_column(f, source, listed_floats(source, "scale"))});
  f.give(y);
  f.run();
}

// y = x / n, or y = x if n = 0. For each row, n = max_j x_j (MAX), sum_j |x_j| (L1) or sqrt(sum_j x_j^2) (L2).
void normalizer(Import& import, const Source& source) {
  const int rank = source.operand(0)->rank();
  if (rank < 1 || rank > 2) source.malformed("its input is no matrix");
  const std::string norm = source.text("norm", "MAX");
  const char* const op = norm == "MAX" ? "ReduceMax" : norm == "L1" ? "ReduceL1" : norm == "L2" ? "ReduceL2" : nullptr;
  if (op == nullptr) source.malformed("norm " + norm + " is none");
  Formula f(import, source);
  const Term x = real_input(f, source), n = f.reduce(op, x, {rank - 1});
  f.give(f("Div", {x, f("Where", {f("Equal", {n, f.number(0)}), f.number(1), n})}));
  f.run();
}

// y = 1 if x > threshold, else 0
void binarizer(Import& import, const Source& source) {
  Formula f(import, source);
  const Term above = f("Greater", {real_input(f, source), f.number(source.real("threshold", 0))});
  f.give(in_type_of_input(f, source, f.to_real(above)));
  f.run();
}

// y = the column's number if x equals the value to be replaced, or if both are NaN; else y = x
void imputer(Import& import, const Source& source) {
  const bool floats = source.has("imputed_value_floats");
  const std::vector<float> numbers = floats ? listed_floats(source, "imputed_value_floats")
                                            : exact_floats(source, source.integers("imputed_value_int64s"));
  const float replaced = floats ? source.real("replaced_value_float", 0)
                                : exact_floats(source, {source.integer("replaced_value_int64", 0)})[0];
  Formula f(import, source);
  const Term x = real_input(f, source);
  const Term hit = std::isnan(replaced) ? f("IsNaN", {x}) : f("Equal", {x, f.number(replaced)});
  f.give(in_type_of_input(f, source, f("Where", {hit, per_column(f, source, numbers), x})));
  f.run();
}

// Returns [.., keys]: 1 if x equals the key, else 0. If `whole` is set, a float32 x is first cut to an integer.
Term hits(Formula& f, const Source& source, const std::vector<float>& keys, bool whole) {
  Term x = real_input(f, source);
  if (whole && source.operand(0)->type == ElementType::kFloat32)
    x = f.to_real(f("Cast", {x}, {{"to", int64_t(::onnx::TensorProto::INT64)}}));
  const int64_t last = source.operand(0)->rank();
  return f.to_real(f("Equal", {f("Unsqueeze", {x, f.list({last})}), f.numbers({int64_t(keys.size())}, keys)}));
}

// y = 1 at the index of x among the categories, else 0. A value that is no category gives zeros even if the file asks
// for an error, because a converted network raises no errors.
void one_hot_encoder(Import& import, const Source& source) {
  if (source.has("cats_strings"))
    source.refuse("encodes strings, which no tensor holds", "give the network integers instead of names");
  const std::vector<float> keys = exact_floats(source, source.integers("cats_int64s"));
  if (keys.empty()) source.malformed("has no categories");
  if (source.integer("zeros", 1) == 0) import.log().add("an unknown category gives zeros");
  Formula f(import, source);
  f.give(hits(f, source, keys, true));
  f.run();
}

// ---- LabelEncoder ----

struct Table {
  std::vector<float> keys, values;
  float otherwise = 0;
  bool whole_values = false;
  std::vector<std::string> names;  // if the values are names, `values` holds their indices

  void keep_first() {  // keeps the first of equal keys
    std::vector<float> k, v;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (std::find(k.begin(), k.end(), keys[i]) != k.end()) continue;
      k.push_back(keys[i]);
      v.push_back(values[i]);
    }
    keys = std::move(k);
    values = std::move(v);
  }
};

std::vector<float> tensor_floats(const Source& source, const char* key, bool& whole) {
  const Value value = read_tensor(source.find(key)->t(), "");
  whole = is_integer(value.stored);
  return whole ? exact_floats(source, integers(value)) : reals(value);
}

// Returns the index of `name` among the names. Appends the name if it is not among them.
float index_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  const auto index = float(found - names.begin());
  if (found == names.end()) names.push_back(name);
  return index;
}

void read_values(const Source& source, Table& table) {
  if (source.has("values_tensor")) {
    table.values = tensor_floats(source, "values_tensor", table.whole_values);
    bool whole = false;
    if (source.has("default_tensor")) {
      const std::vector<float> given = tensor_floats(source, "default_tensor", whole);
      if (given.size() != 1) source.malformed("its default is not one number");
      table.otherwise = given[0];
    } else {
      table.otherwise = table.whole_values ? -1.0f : -0.0f;
    }
  } else if (source.has("values_floats")) {
    table.values = listed_floats(source, "values_floats");
    table.otherwise = source.real("default_float", -0.0f);
  } else if (source.has("values_int64s")) {
    table.values = exact_floats(source, source.integers("values_int64s"));
    table.otherwise = exact_floats(source, {source.integer("default_int64", -1)})[0];
    table.whole_values = true;
  } else {
    for (const std::string& name : listed_texts(source, "values_strings"))
      table.values.push_back(index_of(table.names, name));
    table.otherwise = index_of(table.names, source.text("default_string", "_Unused"));
    table.whole_values = true;
  }
}

Table read_table(const Source& source) {
  Table table;
  bool whole = false;
  if (source.has("keys_strings") || source.has("classes_strings"))
    source.refuse("has strings as keys, which no tensor holds", "give the network integers instead of names");
  if (source.has("keys_tensor")) table.keys = tensor_floats(source, "keys_tensor", whole);
  else if (source.has("keys_floats")) table.keys = listed_floats(source, "keys_floats");
  else table.keys = exact_floats(source, source.integers("keys_int64s"));
  read_values(source, table);
  constexpr size_t kMost = 4096;  // most keys, because each input is compared with each key
  if (table.keys.empty() || table.keys.size() > kMost) source.refuse("has no keys, or more than 4,096");
  if (table.keys.size() != table.values.size()) source.malformed("has not as many values as keys");
  if (std::ranges::any_of(table.keys, [](float key) { return std::isnan(key); }))
    source.refuse("has a key that is no number");
  table.keep_first();
  return table;
}

// y = value_k if x = key_k, else the default
void label_encoder(Import& import, const Source& source) {
  const Table table = read_table(source);
  list_names(import, source, table.names);
  Formula f(import, source);
  const auto count = int64_t(table.keys.size()), last = int64_t{source.operand(0)->rank()};
  const Term hit = hits(f, source, table.keys, false);
  const Term value = f.reduce("ReduceSum", f("Mul", {hit, f.numbers({count}, table.values)}), {last}, false);
  const Term any = f("Greater", {f.reduce("ReduceMax", hit, {last}, false), f.number(0)});
  const Term y = f("Where", {any, value, f.number(table.otherwise)});
  f.give(table.whole_values ? f("Cast", {y}, {{"to", int64_t(::onnx::TensorProto::INT64)}}) : y);
  f.run();
}

// ---- Columns ----

// Concatenates the inputs. Each input is first cut, or filled with zeros, to its number of inputdimensions.
void feature_vectorizer(Import& import, const Source& source) {
  const Ints widths = source.integers("inputdimensions");
  if (widths.size() != source.inputs.size() || widths.empty())
    source.malformed("its inputdimensions are not one for each input");
  Formula f(import, source);
  std::vector<Term> parts;
  for (size_t i = 0; i < widths.size(); ++i) {
    const OperandPtr& x = source.operand(int(i));
    if (x->rank() != 2 || widths[i] < 1 || widths[i] > 1 << 24) source.refuse("has an input that is no matrix");
    const int64_t width = x->dims[1];
    Term part = real_input(f, source, int(i));
    if (width > widths[i]) part = f.slice(part, 1, 0, widths[i]);
    if (width < widths[i]) part = f("Pad", {part, f.list({0, 0, 0, widths[i] - width})});
    parts.push_back(part);
  }
  f.give(parts.size() == 1 ? parts[0] : f("Concat", parts, {{"axis", int64_t{1}}}));
  f.run();
}

// Gathers from the last axis of input 0 the columns that input 1 lists: y [.., count]. A vector gives y [1, count].
// If input 0 holds names, y holds the indices of names, and the model's metadata list the names.
void array_feature_extractor(Import& import, const Source& source) {
  OperandPtr x = source.operand(0);
  const OperandPtr& columns = source.operand(1);
  if (x->rank() < 1) source.malformed("its input has no axis");
  if (x->names) {
    list_names(import, source, *x->names);
    x = constant_operand(*x->constant);
  }
  const int64_t count = product_of(columns->dims, 0, columns->dims.size());
  Ints dims = x->rank() == 1 ? Ints{1} : Ints(x->dims.begin(), x->dims.end() - 1);
  const int64_t rows = product_of(dims, 0, dims.size());
  dims.push_back(count);
  Formula f(import, source);
  const Term from = f.value(x), flat = f.reshape(f.input(1), {count});
  if (columns->constant || !x->constant) {
    f.give(f.reshape(f("Gather", {from, flat}, {{"axis", int64_t{-1}}}), dims));
    return f.run();
  }
  // The indices come at run time and input 0 is stored. Its columns become the rows of a float32 table.
  const bool whole = x->type != ElementType::kFloat32;
  if (whole) exact_floats(source, integers(*x->constant));
  const Term stored = f.reshape(whole ? f.to_real(from) : from, {rows, x->dims.back()});
  const Term found = f("Gather", {f.transpose(stored, {1, 0}), flat}, {{"axis", int64_t{0}}});
  const Term y = f.reshape(f.transpose(found, {1, 0}), dims);
  f.give(whole ? f("CastLike", {y, from}) : y);
  f.run();
}

// Gives the scores as one tensor in place of a list of maps from class to score. Column k is the score of class k.
void zip_map(Import& import, const Source& source) {
  std::vector<std::string> names = listed_texts(source, "classlabels_strings");
  for (const int64_t label : source.integers("classlabels_int64s")) names.push_back(std::to_string(label));
  list_names(import, source, names);
  import.log().add("its maps become one tensor, a column for each class");
  import.give(0, import.parameters().under_new_name(source.operand(0)));
}

constexpr OperatorImporter kMlImporters[] = {{"Scaler", scaler, kMl},
                                             {"Normalizer", normalizer, kMl},
                                             {"Binarizer", binarizer, kMl},
                                             {"Imputer", imputer, kMl},
                                             {"OneHotEncoder", one_hot_encoder, kMl},
                                             {"LabelEncoder", label_encoder, kMl},
                                             {"FeatureVectorizer", feature_vectorizer, kMl},
                                             {"ArrayFeatureExtractor", array_feature_extractor, kMl},
                                             {"ZipMap", zip_map, kMl}};

}  // namespace

std::span<const OperatorImporter> ml_features_importers() { return kMlImporters; }

}  // namespace nacre::tools::onnx_import

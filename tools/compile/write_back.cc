#include "tools/compile/write_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/parameters.h"
#include "tools/importers/shared/stored_numbers.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kNowhere = UINT64_MAX;
constexpr const char* kSameNetwork = "export the network with plain weights, and train that";

// Returns a number R such that the type represents each of 1 .. R exactly.
uint64_t largest_digit(ElementType type) {
  return type == ElementType::kBfloat16 ? 1 << 8 : type == ElementType::kFloat16 ? 1 << 11 : 1 << 24;
}

// Finds where the file stores the numbers of the graph's constants. The numbers of all tensors that take part are
// counted p = 0 .. n - 1; p is the place of a number. Importers transpose, cut and join numbers as they read. So the
// file is read again (a probe) with each number replaced by a digit of its place, p = sum_k d_k R^k, 0 <= d_k < R:
//
//   probe k   the number at p is 1 + d_k(p)      mirrored probe   the number at p is R - d_0(p)
//
// R comes from largest_digit. If a number's values in probe 0 and in the mirrored probe do not add up to R + 1, it is
// not one of the file's. Each number that is found is then compared with the file's number at its place, so that a
// product or a sum of the file's numbers is found out.
class Places {
 public:
  Places(const std::vector<uint8_t>& file, const Graph& graph, const ImportOptions& importing)
      : file_(file), graph_(graph), importing_(importing), tensors_(stored_numbers(file, graph.source)) {}

  const std::vector<StoredNumbers>& tensors() const { return tensors_; }
  uint64_t first(size_t tensor) const { return first_[tensor]; }  // place of the tensor's first number, or kNowhere
  uint64_t count() const { return count_; }

  // Returns the places of these constants' numbers, by constant and element; kNowhere for a number that is not found.
  std::vector<std::vector<uint64_t>> find(const std::vector<ValueId>& constants,
                                          const std::function<bool(const StoredNumbers&)>& takes) {
    number(takes);
    std::vector<std::vector<uint64_t>> places;
    for (const ValueId id : constants)
      places.emplace_back(size_t(graph_.values[size_t(id)].elements()), count_ == 0 ? kNowhere : 0);
    if (count_ == 0) return places;
    const Graph mirrored = probe([&](uint64_t p) { return radix_ - p % radix_; });
    uint64_t power = 1;
    do {
      const Graph digits = probe([&](uint64_t p) { return 1 + p / power % radix_; });
      for (size_t i = 0; i < constants.size(); ++i)
        add_digit(places[i], constants[i], digits, power == 1 ? &mirrored : nullptr, power);
      power *= radix_;
    } while (power < count_);
    for (size_t i = 0; i < constants.size(); ++i) keep_what_is_there(places[i], graph_.values[size_t(constants[i])]);
    return places;
  }

 private:
  void number(const std::function<bool(const StoredNumbers&)>& takes) {
    radix_ = largest_digit(ElementType::kFloat32);
    count_ = 0;
    first_.clear();
    numbers_.clear();
    for (const StoredNumbers& tensor : tensors_) {
      const bool takes_part = tensor.offset > 0 && tensor.elements > 0 && takes(tensor);
      first_.push_back(takes_part ? count_ : kNowhere);
      if (!takes_part) continue;
      radix_ = std::min(radix_, largest_digit(tensor.type));
      count_ += uint64_t(tensor.elements);
      const std::vector<float> numbers = read_stored(file_, tensor);
      numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    }
  }

  template <class F>
  Graph probe(F number_at) const {
    std::vector<uint8_t> bytes = file_;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (first_[t] == kNowhere) continue;
      std::vector<float> numbers;
      for (int64_t i = 0; i < tensors_[t].elements; ++i) numbers.push_back(float(number_at(first_[t] + uint64_t(i))));
      store(bytes, tensors_[t], 0, numbers);
    }
    seal(bytes, graph_.source);
    try {
      Graph graph = load_network(bytes, graph_.source, importing_, kSimplifyToTrain);
      separate_statistics(graph);
      return graph;
    } catch (const Error& error) {
      const std::string why = error.what();
      throw Error(kUnsupported, graph_.source,
                  "is read as its numbers say, which thus cannot be traced: " + why.substr(0, why.find('\n')),
                  kSameNetwork);
    }
  }

  // Returns the constant in the probed network. Returns null if that network has another constant there.
  const Value* same_constant(const Graph& probed, ValueId id) const {
    const Value& v = graph_.values[size_t(id)];
    if (size_t(id) >= probed.values.size()) return nullptr;
    const Value& other = probed.values[size_t(id)];
    return other.constant() && other.name == v.name && other.dims == v.dims && !other.quantizer ? &other : nullptr;
  }

  void add_digit(std::vector<uint64_t>& places, ValueId id, const Graph& digits, const Graph* mirrored,
                 uint64_t power) const {
    const Value *const v = same_constant(digits, id), *const m = mirrored ? same_constant(*mirrored, id) : v;
    if (v == nullptr || m == nullptr) {
      std::ranges::fill(places, kNowhere);
      return;
    }
    const std::vector<float> found = reals(*v), back = reals(*m);
    for (size_t j = 0; j < places.size(); ++j) {
      const float digit = found[j];
      const bool is_digit = digit >= 1 && digit <= float(radix_) && digit == std::floor(digit);
      const bool moved = mirrored == nullptr || double(digit) + double(back[j]) == double(radix_ + 1);
      if (!is_digit || !moved) places[j] = kNowhere;
      if (places[j] != kNowhere) places[j] += (uint64_t(digit) - 1) * power;
    }
  }

  void keep_what_is_there(std::vector<uint64_t>& places, const Value& constant) const {
    const std::vector<float> numbers = reals(constant);
    for (size_t j = 0; j < places.size(); ++j)
      if (places[j] >= count_ || numbers_[size_t(places[j])] != numbers[j]) places[j] = kNowhere;
  }

  const std::vector<uint8_t>& file_;
  const Graph& graph_;
  const ImportOptions& importing_;
  std::vector<StoredNumbers> tensors_;
  std::vector<uint64_t> first_;
  std::vector<float> numbers_;  // indexed by place
  uint64_t count_ = 0, radix_ = 1;
};

bool all_there(const std::vector<std::vector<uint64_t>>& places) {
  return std::ranges::none_of(places, [](const std::vector<uint64_t>& of_constant) {
    return std::ranges::find(of_constant, kNowhere) != of_constant.end();
  });
}

// Returns the places of the constants' numbers. The ONNX importer recognizes patterns by small constants, and reads
// shapes from constants of real numbers. So for ONNX, first only tensors take part whose name is that of a learned
// constant, or its part before a '/'. If that does not find all places, all tensors of several numbers take part too.
std::vector<std::vector<uint64_t>> places_of(Places& places, const Graph& graph, const std::vector<ValueId>& constants,
                                             bool onnx) {
  std::set<std::string> names;
  for (const ValueId id : constants) {
    const std::string& name = graph.values[size_t(id)].name;
    names.insert(name);
    for (size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1))
      names.insert(name.substr(0, end));
  }
  const auto named = [&](const StoredNumbers& tensor) { return names.contains(tensor.name); };
  if (!onnx) return places.find(constants, [](const StoredNumbers&) { return true; });
  std::vector<std::vector<uint64_t>> found = places.find(constants, named);
  if (all_there(found)) return found;
  return places.find(constants, [&](const StoredNumbers& tensor) { return tensor.elements > 1 || named(tensor); });
}

class Writer {
 public:
  Writer(std::vector<uint8_t>& file, const Graph& before, const Graph& learned, const Places& places)
      : file_(file), before_(before), learned_(learned), places_(places), numbers_(places.count(), NAN) {}

  void take(ValueId id, const std::vector<uint64_t>& places) {
    const Value& v = learned_.values[size_t(id)];
    const std::vector<float> numbers = reals(v);
    for (size_t j = 0; j < numbers.size(); ++j) {
      if (places[j] == kNowhere)
        throw Error(kUnsupported, before_.source,
                    fmt::format("does not hold {} as numbers that others could take the place of", v.name),
                    kSameNetwork);
      float& number = numbers_[size_t(places[j])];
      if (!std::isnan(number) && number != numbers[j])
        throw Error(kUnsupported, before_.source,
                    fmt::format("holds {} once for several layers, which learned different numbers for it", v.name),
                    kSameNetwork);
      number = numbers[j];
    }
  }

  void write(WrittenBack& counts) {
    for (size_t t = 0; t < places_.tensors().size(); ++t) {
      const StoredNumbers& tensor = places_.tensors()[t];
      if (places_.first(t) == kNowhere) continue;
      const size_t written = counts.numbers;
      for (int64_t i = 0; i < tensor.elements; ++i) {
        float& number = numbers_[places_.first(t) + uint64_t(i)];
        if (std::isnan(number)) continue;
        store(file_, tensor, i, {&number, 1});
        number = rounded_to(tensor.type, number);
        if (!std::isfinite(number))
          throw Error(kFailed, before_.source, tensor.name + " is beyond what its type in the file can hold",
                      "train with a lower " + option("lr") + " or with weight decay, or save the network in float32");
        ++counts.numbers;
      }
      counts.tensors += counts.numbers > written ? 1 : 0;
    }
    seal(file_, before_.source);
  }

  float number(uint64_t place) const { return numbers_[size_t(place)]; }

 private:
  std::vector<uint8_t>& file_;
  const Graph &before_, &learned_;
  const Places& places_;
  std::vector<float> numbers_;  // indexed by place; NaN if the number is unchanged
};

// Returns the ids of the constants that changed.
std::vector<ValueId> learned_constants(const Graph& before, const Graph& learned) {
  std::vector<ValueId> ids;
  for (size_t id = 0; id < before.values.size(); ++id) {
    const Value &v = before.values[id], &now = learned.values[id];
    if (!v.constant() || now.data == v.data) continue;
    if (v.quantizer)
      throw Error(kUnsupported, before.source, v.name + " is codes in the file, and reals were learned",
                  "write an inference model: nacre export " + option("network") + " without " + option("keras") +
                      " or " + option("onnx"));
    ids.push_back(ValueId(id));
  }
  return ids;
}

// Throws if a constant changed that was not learned. This happens if a file stores one number both for a parameter and
// for another constant.
void require_others_unchanged(const Graph& before, const Graph& now, const std::vector<ValueId>& learned) {
  for (size_t id = 0; id < before.values.size(); ++id) {
    const Value& v = before.values[id];
    if (!v.constant() || std::ranges::find(learned, ValueId(id)) != learned.end()) continue;
    if (id >= now.values.size() || !now.values[id].constant() || *now.values[id].data != *v.data)
      throw Error(kUnsupported, before.source,
                  fmt::format("holds {} once with a number that was learned, and it was not", v.name), kSameNetwork);
  }
}

}  // namespace

WrittenBack write_back(const WriteBackOptions& options, const LoadedModel& training, std::span<const std::byte> state) {
  std::vector<uint8_t> file = read_network(options.network);
  const bool onnx = sniff(file) == Format::kOnnx;
  if (onnx) file = with_data_inside(file, options.network);
  const ImportOptions& importing = options.importing;
  Graph before = load_network(file, options.network, importing, kSimplifyToTrain);
  separate_statistics(before);
  WrittenBack made;
  Graph learned = before;
  take_learned(learned, training, state, made.counts);
  const std::vector<ValueId> constants = learned_constants(before, learned);

  const std::vector<uint8_t> source = file;
  Places places(source, before, importing);
  const std::vector<std::vector<uint64_t>> found = places_of(places, before, constants, onnx);
  Writer writer(file, before, learned, places);
  for (size_t i = 0; i < constants.size(); ++i) writer.take(constants[i], found[i]);
  writer.write(made);

  Graph read = load_network(file, options.network, importing, kSimplifyToTrain);
  separate_statistics(read);
  for (size_t i = 0; i < constants.size(); ++i) {
    const std::vector<float> numbers = reals(read.values.at(size_t(constants[i])));
    for (size_t j = 0; j < numbers.size(); ++j)
      if (numbers[j] != writer.number(found[i][j]))
        throw Error(kFailed, options.network,
                    before.values[size_t(constants[i])].name + " is read back as other numbers than were written",
                    "this is a defect of the exporter: report it with the network");
  }
  require_others_unchanged(before, read, constants);
  made.counts.bytes = std::move(file);
  return made;
}

}  // namespace nacre::tools

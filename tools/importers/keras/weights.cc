// Decides which variables of the file belong to which layer.
#include <algorithm>
#include <cctype>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

constexpr const char* kListRoots[] = {"model_weights", ""};

const std::vector<std::string>* find_texts(const Hdf5File& file, const std::string& group, const std::string& key) {
  const auto of_group = file.texts.find(group);
  if (of_group == file.texts.end()) return nullptr;
  const auto found = of_group->second.find(key);
  return found == of_group->second.end() ? nullptr : &found->second;
}

// Reads a list of texts. Attributes over 64,512 bytes are stored in pieces: layer_names0, layer_names1, ..
std::vector<std::string> list_of(const Hdf5File& file, const std::string& group, const std::string& key) {
  if (const auto* whole = find_texts(file, group, key)) return *whole;
  std::vector<std::string> all;
  for (int i = 0;; ++i) {
    const auto* piece = find_texts(file, group, key + std::to_string(i));
    if (piece == nullptr) return all;
    all.insert(all.end(), piece->begin(), piece->end());
  }
}

bool has_list(const Hdf5File& file, const std::string& group, const std::string& key) {
  return find_texts(file, group, key) != nullptr || find_texts(file, group, key + "0") != nullptr;
}

std::string joined(const std::string& above, const std::string& name) {
  return above.empty() ? name : name.empty() ? above : above + "/" + name;
}

// Returns whether `layer` is a part of a variable's name, not counting the last: "inner/dense/kernel:0".
bool belongs(const std::string& variable, const std::string& layer) {
  const size_t last = variable.rfind('/');
  if (last == variable.npos) return false;
  return ("/" + variable.substr(0, last) + "/").find("/" + layer + "/") != std::string::npos;
}

}  // namespace

std::string snake_case(const std::string& class_name) {
  std::string text;  // as the expression (.)([A-Z][a-z]+) -> \1_\2
  for (size_t i = 0; i < class_name.size(); ++i) {
    const bool starts = i > 0 && std::isupper(uint8_t(class_name[i])) && i + 1 < class_name.size() &&
                        std::islower(uint8_t(class_name[i + 1]));
    if (starts && text.back() != '_') text += '_';
    text += class_name[i];
  }
  std::string made;  // as the expression ([a-z])([A-Z]) -> \1_\2
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && std::islower(uint8_t(text[i - 1])) && std::isupper(uint8_t(text[i]))) made += '_';
    made += char(std::tolower(uint8_t(text[i])));
  }
  return made;
}

Weights::Weights(const Hdf5File& file, const std::string& place) : file_(&file), place_(place), root_(true) {
  for (const char* root : kListRoots) {
    if (!has_list(file, root, "layer_names")) continue;
    by_list_ = true;
    path_ = root;
    return;
  }
}

const Hdf5Dataset& Weights::operator[](size_t i) const {
  if (i == 0 && kernel_ != nullptr) return kernel_->numbers;
  if (i >= paths_.size())
    throw Error(kBadInput, place_,
                (path_.empty() ? "a layer" : path_) + " has " + std::to_string(paths_.size()) + " variables, " +
                    std::to_string(i + 1) + " are needed",
                "give the weights of this model");
  const auto found = file_->datasets.find(paths_[i]);
  if (found == file_->datasets.end()) throw Error(kBadInput, place_, paths_[i] + " is missing or holds no numbers");
  return found->second;
}

Weights Weights::at(const std::string& path) const {
  Weights made = *this;
  made.root_ = false;
  made.path_ = path;
  made.paths_.clear();
  made.kernel_ = nullptr;
  for (size_t i = 0;; ++i) {
    std::string variable = joined(path, "vars/" + std::to_string(i));
    if (!file_->datasets.contains(variable)) return made;
    made.paths_.push_back(std::move(variable));
  }
}

Weights Weights::part(const std::vector<std::string>& names, size_t first, size_t size) const {
  if (!by_list_) {
    for (const std::string& name : names) {
      const std::string path = joined(path_, name);
      const auto next = file_->datasets.lower_bound(path + "/");
      if (next != file_->datasets.end() && next->first.starts_with(path + "/")) return at(path);
    }
    return at(joined(path_, names.front()));
  }
  Weights made = *this;
  made.paths_.clear();
  for (const std::string& name : names)  // by the variables' names, if they contain it
    for (const std::string& path : paths_)
      if (belongs(path.substr(std::min(path.size(), path_.size())), name)) made.paths_.push_back(path);
  if (!made.paths_.empty()) {
    if (made.paths_[0] != paths_[0]) made.kernel_ = nullptr;
    return made;
  }
  const size_t begin = std::min(first, paths_.size()), end = std::min(paths_.size(), begin + size);
  if (begin > 0) made.kernel_ = nullptr;
  made.paths_.assign(paths_.begin() + std::ptrdiff_t(begin), paths_.begin() + std::ptrdiff_t(end));
  return made;
}

Weights Weights::with_kernel(std::shared_ptr<const CodedKernel> kernel, size_t at, std::optional<size_t> bias) const {
  Weights made = *this;
  made.kernel_ = std::move(kernel);
  made.paths_ = {paths_.at(at)};
  if (bias) made.paths_.push_back(paths_.at(*bias));
  return made;
}

// Returns a layer's variables by list. At the root each layer has a group with a list. Below it the variables' names
// tell their layer.
Weights Weights::named(const std::string& layer) const {
  Weights made = *this;
  made.root_ = false;
  made.paths_.clear();
  if (root_) {
    made.path_ = joined(path_, layer);
    for (const std::string& name : list_of(*file_, made.path_, "weight_names"))
      made.paths_.push_back(joined(made.path_, name));
    return made;
  }
  for (const std::string& path : paths_)
    if (belongs(path.substr(std::min(path.size(), path_.size())), layer)) made.paths_.push_back(path);
  return made;
}

namespace {

// Finds a layer that several models hold. Keras writes it with the first: returns the only group with its name, else
// `path`.
std::string elsewhere(const Hdf5File& file, const std::string& layer, const std::string& path) {
  std::string found;
  for (const auto& [group, texts] : file.texts) {
    const auto name = texts.find("name");
    if (!group.ends_with("/vars") || name == texts.end() || name->second != std::vector<std::string>{layer}) continue;
    if (!found.empty()) return path;
    found = group.substr(0, group.size() - 5);
  }
  return found.empty() ? path : found;
}

}  // namespace

// By place, the group of a layer is named after its class, and the k-th layer of a class has _k after it. Newer files
// give the layer's name in attribute `name` of its group `vars`.
std::vector<Weights> Weights::layers(const std::vector<std::pair<std::string, std::string>>& layers) const {
  std::vector<Weights> all;
  if (file_ == nullptr) return std::vector<Weights>(layers.size());
  if (by_list_) {
    for (const auto& [name, class_name] : layers) {
      all.push_back(named(name));  // Keras 2 leaves out the name of an inner model; its layers' names tell
      if (!root_ && all.back().paths_.empty() && is_model(class_name, Json())) all.back().paths_ = paths_;
    }
    return all;
  }
  std::string above;
  for (const char* group : {"layers", "_layer_checkpoint_dependencies"}) {
    above = joined(path_, group) + "/";
    const auto next = file_->texts.lower_bound(above);
    const auto data = file_->datasets.lower_bound(above);
    if ((next != file_->texts.end() && next->first.starts_with(above)) ||
        (data != file_->datasets.end() && data->first.starts_with(above)))
      break;
  }
  std::map<std::string, std::string> by_name;  // group of a layer, by its name
  for (auto i = file_->texts.lower_bound(above); i != file_->texts.end() && i->first.starts_with(above); ++i) {
    const std::string& path = i->first;
    const size_t end = path.find('/', above.size());
    if (end == path.npos || path.substr(end) != "/vars") continue;
    const auto name = i->second.find("name");
    if (name != i->second.end() && name->second.size() == 1) by_name[name->second[0]] = path.substr(0, end);
  }
  std::map<std::string, int> taken;
  const auto in_file = [&](const std::string& group) {
    const auto data = file_->datasets.lower_bound(group + "/");
    return data != file_->datasets.end() && data->first.starts_with(group + "/");
  };
  for (const auto& [name, class_name] : layers) {
    const std::string group = snake_case(class_name);
    const int k = taken[group]++;
    const auto found = by_name.find(name);
    const std::string suffix = k == 0 ? "" : "_" + std::to_string(k);
    std::string path = found != by_name.end() ? found->second : above + group + suffix;
    if (!in_file(path)) path = elsewhere(*file_, name, path);
    all.push_back(at(path));
  }
  return all;
}

}  // namespace nacre::tools::keras

#include "tools/base/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/base/foreign_text.h"

namespace nacre::tools {
namespace {

using Library = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) { throw JsonError(what, 0, false); }

bool is_pair(const Json& json) { return json.is_array() && json.size() == 2 && json.at(size_t(0)).is_string(); }

Json::Event event_of(Library::parse_event_t event) {
  switch (event) {
    case Library::parse_event_t::object_start: return Json::Event::kObjectStart;
    case Library::parse_event_t::object_end: return Json::Event::kObjectEnd;
    case Library::parse_event_t::key: return Json::Event::kKey;
    default: return Json::Event::kOther;
  }
}

}  // namespace

struct JsonText {
  static Library written(const Json& json) {
    switch (json.kind_) {
      case Json::Kind::kNull: return nullptr;
      case Json::Kind::kBool: return json.whole_ != 0;
      case Json::Kind::kInteger: return int64_t(json.whole_);
      case Json::Kind::kUnsigned: return json.whole_;
      case Json::Kind::kReal: return json.real_;
      case Json::Kind::kText: return json.text_;
      case Json::Kind::kArray: {
        Library all = Library::array();
        for (const Json& element : json.elements_) all.push_back(written(element));
        return all;
      }
      case Json::Kind::kObject: break;
    }
    Library all = Library::object();
    for (const auto& [key, element] : json.items_) all[key] = written(element);
    return all;
  }

  static Json read(const Library& library) {
    switch (library.type()) {
      case Library::value_t::boolean: return library.get<bool>();
      case Library::value_t::number_integer: return library.get<int64_t>();
      case Library::value_t::number_unsigned: return library.get<uint64_t>();
      case Library::value_t::number_float: return library.get<double>();
      case Library::value_t::string: return library.get_ref<const std::string&>();
      case Library::value_t::array: {
        Json all = Json::array();
        for (const Library& element : library) all.elements_.push_back(read(element));
        return all;
      }
      case Library::value_t::object: {
        Json all = Json::object();
        for (const auto& [key, element] : library.items()) all.items_.emplace_back(key, read(element));
        return all;
      }
      default: return {};
    }
  }
};

Json::Json(std::initializer_list<Json> list) {
  *this = std::all_of(list.begin(), list.end(), is_pair) ? object(list) : array(list);
}

Json Json::array(std::initializer_list<Json> list) {
  Json json;
  json.kind_ = Kind::kArray;
  json.elements_ = list;
  return json;
}

Json Json::object(std::initializer_list<Json> list) {
  Json json;
  json.kind_ = Kind::kObject;
  for (const Json& pair : list) {
    if (!is_pair(pair)) refuse("an object is made of pairs that begin with a text");
    json.entry(pair.at(size_t(0)).text()) = pair.at(size_t(1));
  }
  return json;
}

Json Json::parse(std::string_view text, const Listener& listener) {
  const auto callback = [&](int depth, Library::parse_event_t event, Library& parsed) {
    listener(depth, event_of(event),
             event == Library::parse_event_t::key ? parsed.get_ref<const std::string&>() : std::string());
    return true;
  };
  try {
    return JsonText::read(listener ? Library::parse(text, callback) : Library::parse(text));
  } catch (const Library::parse_error& error) {
    throw JsonError(error.what(), error.byte);
  } catch (const Library::exception& error) {
    refuse(error.what());
  }
}

Json Json::parse(std::istream& stream) {
  return parse(std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()));
}

std::string Json::dump(int indent) const {
  return with_visible_controls(JsonText::written(*this).dump(indent, ' ', false, Library::error_handler_t::replace));
}

const std::string& Json::text() const {
  if (!is_string()) refuse("is no text: " + dump());
  return text_;
}

const Json::Array& Json::elements() const {
  if (!is_array()) refuse("is no array: " + dump());
  return elements_;
}

const Json::Object& Json::items() const {
  if (!is_object()) refuse("is no object: " + dump());
  return items_;
}

bool Json::boolean() const {
  if (!is_boolean()) refuse("is neither true nor false: " + dump());
  return whole_ != 0;
}

// Also accepts a real number without a fraction, up to 2^53. Above 2^53 several integers share one double.
int64_t Json::integer_within(int64_t low, int64_t high) const {
  constexpr double kMostWhole = 0x1p53;
  if (kind_ == Kind::kUnsigned && whole_ <= uint64_t(high)) return int64_t(whole_);
  if (kind_ == Kind::kInteger && int64_t(whole_) >= low && int64_t(whole_) <= high) return int64_t(whole_);
  const bool whole = is_number_float() && std::abs(real_) <= kMostWhole && real_ == std::trunc(real_);
  if (whole && int64_t(real_) >= low && int64_t(real_) <= high) return int64_t(real_);
  refuse("is no integer from " + std::to_string(low) + " to " + std::to_string(high) + ": " + dump());
}

uint64_t Json::count_within(uint64_t most) const {
  if (kind_ == Kind::kUnsigned && whole_ <= most) return whole_;
  if (most > uint64_t{INT64_MAX}) return uint64_t(integer_within(0, INT64_MAX));
  return uint64_t(integer_within(0, int64_t(most)));
}

double Json::real_within(double most) const {
  const double number = kind_ == Kind::kUnsigned  ? double(whole_)
                        : kind_ == Kind::kInteger ? double(int64_t(whole_))
                                                  : real_;
  if (!is_number()) refuse("is no number: " + dump());
  if (std::isfinite(number) && std::abs(number) > most) refuse("is no number that fits: " + dump());
  return number;
}

size_t Json::size() const {
  if (is_null()) return 0;
  return is_array() ? elements().size() : is_object() ? items().size() : 1;
}

Json::Iterator Json::begin() const {
  if (is_null()) return {};
  if (is_object()) return {nullptr, items().data()};
  return {elements().data(), nullptr};
}

Json::Iterator Json::end() const {
  if (is_null()) return {};
  if (is_object()) return {nullptr, items().data() + items().size()};
  return {elements().data() + elements().size(), nullptr};
}

Json::Iterator Json::find(std::string_view key) const {
  if (!is_object()) return end();
  const auto found = std::find_if(items().begin(), items().end(), [&](const auto& item) { return item.first == key; });
  return {nullptr, items().data() + (found - items().begin())};
}

bool Json::contains(std::string_view key) const { return is_object() && find(key) != end(); }

const Json& Json::at(std::string_view key) const {
  const Iterator found = is_object() ? find(key) : Iterator();
  if (!is_object() || found == end()) refuse("has no key " + std::string(key) + ": " + dump());
  return *found;
}

const Json& Json::at(size_t index) const {
  if (index >= elements().size()) refuse("has no element " + std::to_string(index) + ": " + dump());
  return elements()[index];
}

Json& Json::entry(std::string_view key) {
  if (is_null()) kind_ = Kind::kObject;
  if (!is_object()) refuse("is no object: " + dump());
  if (!contains(key)) items_.emplace_back(std::string(key), Json());
  return at(key);
}

void Json::push_back(Json element) {
  if (is_null()) kind_ = Kind::kArray;
  if (!is_array()) refuse("is no array: " + dump());
  elements_.push_back(std::move(element));
}

void Json::update(const Json& object) {
  for (const auto& [key, value] : object.items()) entry(key) = value;
}

void Json::erase(std::string_view key) {
  if (is_object()) std::erase_if(items_, [&](const auto& item) { return item.first == key; });
}

bool Json::equals(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (is_number_float() || other.is_number_float()) return get<double>() == other.get<double>();
    if (is_number_unsigned() != other.is_number_unsigned()) return false;
    return whole_ == other.whole_;
  }
  return kind_ == other.kind_ && whole_ == other.whole_ && text_ == other.text_ && elements_ == other.elements_ &&
         items_ == other.items_;
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace nacre::tools

// Json: the value that reports are made of and that tables and policies are read from. nlohmann-json reads and writes
// the text. Only json.cc includes its header, which costs each file that includes it seconds of compilation.
//
//   Json report = {{"model", path}, {"bytes", 12}, {"tensors", Json::array()}};
//   report["tensors"].push_back({{"name", name}});
//   const int bytes = report.at("bytes");
//
// A braced list whose elements are all pairs that begin with a text is an object, any other list an array. Objects keep
// the order of their keys. Reading throws JsonError if a key or element is missing, or if a value has another kind than
// the one asked for. A number that the type does not hold throws as well: 3.5 or 1e30 as an int, 1e60 as a float, true
// as either. 4.0 is an integer.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nacre::tools {

struct JsonError : std::runtime_error {
  explicit JsonError(const std::string& what, size_t read = 0, bool is_syntax = true)
      : std::runtime_error(what), byte(read), syntax(is_syntax) {}
  size_t byte;  // how many bytes parse() had read when it found that the text is no JSON
  bool syntax;  // true: the text is no JSON; false: a value has the wrong kind, or a key or an element is missing
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(std::initializer_list<Json> list);
  Json(const char* text) : kind_(Kind::kText), text_(text) {}
  Json(std::string text) : kind_(Kind::kText), text_(std::move(text)) {}
  Json(std::string_view text) : kind_(Kind::kText), text_(text) {}
  Json(Array array) : kind_(Kind::kArray), elements_(std::move(array)) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Json(T number) {
    if constexpr (std::floating_point<T>) {
      kind_ = Kind::kReal;
      real_ = double(number);
    } else {
      kind_ = std::same_as<T, bool> ? Kind::kBool : std::is_signed_v<T> ? Kind::kInteger : Kind::kUnsigned;
      whole_ = uint64_t(number);
    }
  }
  template <class A, class B>
  Json(const std::pair<A, B>& pair) : kind_(Kind::kArray), elements_{Json(pair.first), Json(pair.second)} {}
  template <class Container>  // a map whose keys are texts becomes an object, any other container an array
    requires requires(const Container& c) {
      c.begin() == c.end();
      typename Container::value_type;
    } && (!std::convertible_to<Container, std::string_view>) && (!std::same_as<Container, Json>)
  Json(const Container& all) {
    if constexpr (requires {
                    typename Container::mapped_type;
                    requires std::same_as<typename Container::key_type, std::string>;
                  }) {
      kind_ = Kind::kObject;
      for (const auto& [key, value] : all) items_.emplace_back(key, Json(value));
    } else {
      kind_ = Kind::kArray;
      for (const auto& value : all) elements_.push_back(Json(typename Container::value_type(value)));
    }
  }

  static Json array(std::initializer_list<Json> list = {});
  static Json object(std::initializer_list<Json> list = {});

  // Events that a parser reports to its listener. The listener may throw. `key` is set for kKey events only.
  enum class Event : uint8_t { kObjectStart, kObjectEnd, kKey, kOther };
  using Listener = std::function<void(int depth, Event event, const std::string& key)>;
  static Json parse(std::string_view text, const Listener& listener = nullptr);  // throws JsonError
  static Json parse(std::istream& stream);
  template <class Bytes>
    requires std::same_as<typename Bytes::value_type, uint8_t>
  static Json parse(const Bytes& bytes) {
    return parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  // Writes the JSON on one line, or with `indent` blanks a level. Bytes that are no UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_boolean() const { return kind_ == Kind::kBool; }
  bool is_string() const { return kind_ == Kind::kText; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_number_unsigned() const {
    return kind_ == Kind::kUnsigned || (kind_ == Kind::kInteger && int64_t(whole_) >= 0);
  }
  bool is_number_integer() const { return kind_ == Kind::kUnsigned || kind_ == Kind::kInteger; }
  bool is_number_float() const { return kind_ == Kind::kReal; }
  bool is_number() const { return is_number_integer() || is_number_float(); }

  template <class T>
  static constexpr bool kReadable = std::is_arithmetic_v<T> && !std::same_as<T, char>;

  template <class T>
  T get() const {
    if constexpr (std::same_as<T, Json>) {
      return *this;
    } else if constexpr (std::same_as<T, std::string>) {
      return text();
    } else if constexpr (std::same_as<T, bool>) {
      return boolean();
    } else if constexpr (std::integral<T> && std::is_signed_v<T>) {
      return T(integer_within(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    } else if constexpr (std::integral<T>) {
      return T(count_within(std::numeric_limits<T>::max()));
    } else if constexpr (std::floating_point<T>) {
      return T(real_within(double(std::numeric_limits<T>::max())));
    } else {
      T all;
      for (const Json& element : elements()) all.push_back(element.get<typename T::value_type>());
      return all;
    }
  }
  template <class T>
    requires(kReadable<T> || std::same_as<T, std::string>)
  operator T() const {
    return get<T>();
  }
  template <class T>
  operator std::vector<T>() const {
    return get<std::vector<T>>();
  }
  const std::string& text() const;
  const Array& elements() const;
  const Object& items() const;

  size_t size() const;  // elements or items; 0 for null, 1 for any other value
  bool empty() const { return size() == 0; }
  bool contains(std::string_view key) const;
  const Json& at(std::string_view key) const;
  const Json& at(size_t index) const;
  Json& at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }
  Json& at(size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }
  template <class I>
    requires(std::integral<I> || std::is_enum_v<I>)
  const Json& operator[](I index) const {
    return at(size_t(index));
  }
  template <class I>
    requires(std::integral<I> || std::is_enum_v<I>)
  Json& operator[](I index) {
    return at(size_t(index));
  }
  const Json& operator[](const char* key) const { return at(key); }
  const Json& operator[](const std::string& key) const { return at(key); }
  Json& operator[](const char* key) { return entry(key); }  // a missing key is added; null becomes an object
  Json& operator[](const std::string& key) { return entry(key); }
  Json value(std::string_view key, Json otherwise) const { return contains(key) ? at(key) : otherwise; }
  const Json& front() const { return at(size_t(0)); }
  const Json& back() const { return at(size() - 1); }
  Json& back() { return at(size() - 1); }

  void push_back(Json element);  // null becomes an array
  template <class... Arguments>
  Json& emplace_back(Arguments&&... arguments) {
    push_back(Json(std::forward<Arguments>(arguments)...));
    return back();
  }
  void update(const Json& object);
  void erase(std::string_view key);

  // Goes over the elements of an array, or the values of an object. null has none.
  class Iterator {
   public:
    using value_type = Json;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const Json* element, const Object::value_type* item) : element_(element), item_(item) {}
    const Json& operator*() const { return item_ != nullptr ? item_->second : *element_; }
    const Json* operator->() const { return &**this; }
    const Json& value() const { return **this; }
    const std::string& key() const { return item_->first; }
    Iterator& operator++();
    Iterator operator++(int) { return std::exchange(*this, ++Iterator(*this)); }
    bool operator==(const Iterator&) const = default;

   private:
    const Json* element_ = nullptr;
    const Object::value_type* item_ = nullptr;
  };
  using const_iterator = Iterator;
  using value_type = Json;
  Iterator begin() const;
  Iterator end() const;
  Iterator find(std::string_view key) const;

  friend bool operator==(const Json& a, const Json& b) { return a.equals(b); }
  template <class T>
    requires(!std::same_as<T, Json> && std::constructible_from<Json, const T&>)
  friend bool operator==(const Json& a, const T& b) {
    return a.equals(Json(b));
  }
  friend std::partial_ordering operator<=>(const Json& a, const Json& b) { return a.get<double>() <=> b.get<double>(); }
  template <class T>
    requires(std::is_arithmetic_v<T>)
  friend std::partial_ordering operator<=>(const Json& a, const T& b) {
    return a <=> Json(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const Json& json);
  friend void PrintTo(const Json& json, std::ostream* out) { *out << json; }

 private:
  friend struct JsonText;  // json.cc

  Json& entry(std::string_view key);
  bool boolean() const;
  int64_t integer_within(int64_t low, int64_t high) const;
  uint64_t count_within(uint64_t most) const;
  double real_within(double most) const;
  bool equals(const Json& other) const;  // compares numbers by value; an integer and a real as doubles

  enum class Kind : uint8_t { kNull, kBool, kInteger, kUnsigned, kReal, kText, kArray, kObject };

  Kind kind_ = Kind::kNull;
  uint64_t whole_ = 0;  // kBool, kUnsigned, and the bits of kInteger
  double real_ = 0;
  std::string text_;
  Array elements_;
  Object items_;
};

inline Json::Iterator& Json::Iterator::operator++() {
  if (item_ != nullptr) ++item_;
  else ++element_;
  return *this;
}

// Returns null for infinity and NaN, which JSON cannot hold.
inline Json finite_or_null(double value) { return value - value == 0 ? Json(value) : Json(nullptr); }

}  // namespace nacre::tools

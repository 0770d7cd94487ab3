#include "python/native/errors.h"

#include <array>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "tools/base/error.h"
#include "tools/model/loaded_model.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

// Returns the name of an enumerator, "SegmentCrc" for Code::kSegmentCrc, as the compiler spells it. So no list of
// names has to be kept beside the enum.
template <Code code>
constexpr std::string_view spelled() {
  constexpr std::string_view function = __PRETTY_FUNCTION__, scope = "Code::k";
  constexpr size_t first = function.find(scope, function.find("code = ")) + scope.size();
  return function.substr(first, function.find_first_of(";]", first) - first);
}
static_assert(spelled<Code::kSegmentCrc>() == "SegmentCrc");

template <size_t... codes>
constexpr auto all_names(std::index_sequence<codes...>) {
  return std::array<std::string_view, sizeof...(codes)>{spelled<Code(codes)>()...};
}
constexpr auto kCodeNames = all_names(std::make_index_sequence<size_t(Code::kCodeCount)>());

const char* name_of_exit(tools::ExitCode code) {
  constexpr const char* kNames[] = {"success", "failed", "usage", "bad_input", "unsupported", "io"};
  return size_t(code) < std::size(kNames) ? kNames[size_t(code)] : "failed";
}

// Sets Python's current exception: nacre.Error, made of the error and of the engine's status (null: none).
void raise(const tools::Error& error, const Status* status) {
  nb::object code = nb::none(), table = nb::none(), index = nb::none();
  std::string_view name = name_of_exit(error.code);
  if (status != nullptr) {
    const auto number = size_t(status->code);
    code = nb::int_(number);
    name = number < kCodeNames.size() ? kCodeNames[number] : "Unknown";
    table = nb::str(table_name(status->table));
    index = nb::int_(status->index);
  }
  nb::object type = nb::module_::import_("nacre._error").attr("Error");
  nb::object made = type(text_of(error.what()), int(error.code), code, nb::str(name.data(), name.size()), table, index);
  PyErr_SetObject(type.ptr(), made.ptr());
}

}  // namespace

nb::str text_of(const std::string& text) {
  PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "surrogateescape");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const tools::Refused& refused) {
      raise(refused, &refused.status);
    } catch (const tools::Error& error) {
      raise(error, nullptr);
    }
  });
}

}  // namespace nacre::python

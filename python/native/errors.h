// Translates the errors that the tools throw into the package's own exception.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace nacre::python {

// Text that may hold a file's name, which need be no UTF-8: as Python's own os.fsdecode.
nanobind::str text_of(const std::string& text);

// From now on tools::Error becomes nacre.Error, with code, table and index where the engine refused something.
void translate_errors();

}  // namespace nacre::python

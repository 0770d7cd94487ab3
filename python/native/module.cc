// nacre._native gives the engine and the tools to the Python package beside it, which has the documented interface.
#include <nanobind/nanobind.h>

#include "python/native/bindings.h"
#include "python/native/errors.h"
#include "tools/base/standard_streams.h"
#include "tools/base/version.h"

NB_MODULE(_native, m) {
  nacre::tools::open_standard_streams();
  m.doc() = "The engine and the tools. The documented interface is the package nacre.";
  m.attr("version") = nacre::tools::kVersion;
  nacre::python::translate_errors();
  nacre::python::add_commands(m);
  nacre::python::add_model(m);
  nacre::python::add_program(m);
  nacre::python::add_trainer(m);
}

// Declares the functions that make the extension module nacre._native: each adds functions and classes to it.
#pragma once

#include <nanobind/nanobind.h>

namespace nacre::python {

void add_commands(nanobind::module_& m);  // commands.cc: the commands of the tool, in this process
void add_model(nanobind::module_& m);     // model.cc: Model
void add_program(nanobind::module_& m);   // program.cc: Program
void add_trainer(nanobind::module_& m);   // trainer.cc: Trainer

}  // namespace nacre::python

// ProgramHandle: the object behind Python's Program.
#pragma once

#include <nanobind/nanobind.h>

#include "python/native/runs.h"
#include "tools/model/loaded_model.h"

namespace nacre::python {

struct ProgramHandle {
  tools::BoundProgram bound;
  Runs runs;

  const Program& program() const { return bound.program(); }
  const tools::LoadedModel& loaded() const { return bound.loaded(); }
};

// program_details.cc: adds the methods that look into a run: its tensors, the times of its steps, its stream.
void add_details(nanobind::class_<ProgramHandle>& program);

}  // namespace nacre::python

// Tells C (nacre_c.h) which kernels run the steps of a bound program. It is separate from c_api.cc, so an image that
// does not ask links neither this nor the table of all ops.
#include "engine/c_api.h"

extern "C" nacre_status nacre_program_step(const nacre_program* program, uint32_t step, nacre_step_info* info) {
  using nacre::Program;
  const nacre::Status s = nacre::arguments(program != nullptr, true, nacre::usable(info));
  if (!s.ok()) return nacre::to_c(s);
  const Program& bound = *static_cast<const Program*>(static_cast<const void*>(program->opaque));
  const nacre::Model* const model = bound.model();
  if (model == nullptr || step >= bound.view().step_count)
    return nacre::to_c({nacre::Code::kNoName, nacre::Table::kStep, step});
  nacre_step_info told = nacre::step_info(*model, bound.view(), step);
  told.kernel = reinterpret_cast<const void*>(bound.kernel(step));
  told.packed = bound.packed_operands(step);
  nacre::give(told, info);
  return {};
}

// The tool on a simulated GPU in place of this machine's (ports/fake/fake_driver.h): what tests run under mpirun.
#include "ports/fake/fake_driver.h"
#include "tools/cli/tool.h"
#include "tools/model/gpu.h"

int main(int argc, char** argv) {
  static const void* const modules[] = {nacre::fake::FakeDriver::module()};
  // Of the process: the tool ends by exit where ranks fail, behind which the driver is still asked to give back.
  static auto* const driver = new nacre::fake::FakeDriver({.devices = 2});
  nacre::tools::use_gpu(&driver->driver(), modules);
  return nacre::tools::run_tool(argc, argv);
}

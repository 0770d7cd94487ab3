// The tool on simulated GPUs in place of this machine's (tests/fake/fake_driver.h): what tests run under mpirun.
//
//   NACRE_SIMULATED_GPUS   how many [1]
//   NACRE_SIMULATED_NCCL   if set, there is a simulated NCCL. The value is the number of the message that it refuses
//                          (0: it refuses none), or kRefusesToOpen of tests/fake/fake_nccl.h
#include <cstdlib>

#include "tests/fake/fake_driver.h"
#include "tests/fake/fake_nccl.h"
#include "tools/cli/tool.h"
#include "tools/model/gpu.h"

int main(int argc, char** argv) {
  const auto number = [](const char* name, int other) {
    const char* const text = std::getenv(name);
    return text == nullptr ? other : std::atoi(text);
  };
  static const void* const modules[] = {nacre::fake::FakeDriver::module()};
  // The driver is never deleted: if ranks fail, the tool ends by exit(), and destructors still call the driver.
  static auto* const driver = new nacre::fake::FakeDriver({.devices = number("NACRE_SIMULATED_GPUS", 1)});
  nacre::tools::use_gpu(&driver->driver(), modules);
  const int fails = number("NACRE_SIMULATED_NCCL", -1);
  nacre::tools::use_nccl(fails < 0 ? nullptr : &nacre::test::fake_nccl(driver->driver(), unsigned(fails)));
  return nacre::tools::run_tool(argc, argv);
}

// What `nacre size` says of flash. Images are compared with it by tests/claims/static_image.sh.
#include "tools/evaluate/flash.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/builder.h"
#include "tools/model/ready_entries.h"

namespace nacre::tools {
namespace {

TEST(flash, every_kernel_of_a_static_program_has_its_bytes) {
  for (const std::span<const ReadyEntry> list : ready_entries())
    for (const ReadyEntry& entry : list) {
      const std::string name = std::string(entry.space) + (entry.ready ? "::ready::" : "::functions::") + entry.name;
      EXPECT_TRUE(kernel_text(name)) << name << " is new: write tools/evaluate/kernel_text_m4.inc again with "
                                     << "ports/firmware/kernel_text.py";
    }
  EXPECT_FALSE(kernel_text("reference::ready::kNone"));
}

TEST(flash, what_kernels_share_is_counted_once) {
  test::Buffer one = test::pack(test::dense_int8()), two = test::pack(test::conv_add_int8());
  const auto flash = [](test::Buffer& file, const char* machine) {
    const LoadedModel model({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "draft", "");
    const TargetMachine& target = *find_machine(machine);
    return static_flash(static_tables(model, 0, target), target);
  };
  ASSERT_TRUE(flash(one, "arm/m4"));
  EXPECT_FALSE(flash(one, "arm/m0plus"));
  // Steps of one kernel link it once.
  const uint64_t run = *kernel_text("run"), dense = *kernel_text("reference::ready::kDenseI8Double");
  EXPECT_EQ(flash(one, "arm/m4")->kernels, run + dense);
  const LoadedModel model({reinterpret_cast<const uint8_t*>(two.data()), two.size()}, "draft", "");
  uint64_t sum = run;
  const StaticTables tables = static_tables(model, 0, *find_machine("arm/m4"));
  for (const StaticTables::BoundStep& call : tables.infer().calls)
    sum += *kernel_text(call.function);
  EXPECT_LT(flash(two, "arm/m4")->kernels, sum);
  EXPECT_GT(flash(two, "arm/m4")->tables, 0u);
}

}  // namespace
}  // namespace nacre::tools

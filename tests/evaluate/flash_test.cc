// Tests the flash sizes that `nacre size` prints. tests/claims/static_image.sh compares images with them.
#include "tools/evaluate/flash.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/builder.h"
#include "tools/model/ready_entries.h"

namespace nacre::tools {
namespace {

constexpr const char* kTargets[] = {"arm/m0plus", "arm/m3",  "arm/m4",         "arm/m7",
                                    "arm/m33",    "arm/m55", "riscv/rv32imac", "riscv/rv32imafc"};

TEST(flash, every_kernel_of_a_static_program_has_its_bytes) {
  for (const std::span<const ReadyEntry> list : ready_entries())
    for (const ReadyEntry& entry : list) {
      const std::string name = std::string(entry.space) + (entry.ready ? "::ready::" : "::functions::") + entry.name;
      for (const char* target : kTargets)
        EXPECT_GT(kernel_text(name, target).value_or(0), 0u)
            << name << " is new: write tools/evaluate/kernel_text.inc again with firmware/kernel_text.py";
    }
  EXPECT_FALSE(kernel_text("reference::ready::kNone", "arm/m4"));
  EXPECT_FALSE(kernel_text("run", "x86/avx2"));
}

TEST(flash, what_kernels_share_is_counted_once) {
  test::Buffer one = test::pack(test::dense_int8()), two = test::pack(test::conv_add_int8());
  const auto flash = [](test::Buffer& file, const char* machine) {
    const LoadedModel model({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "draft", "");
    const TargetMachine& target = *find_machine(machine);
    return static_flash(static_tables(model, 0, target), target);
  };
  ASSERT_TRUE(flash(one, "arm/m4"));
  EXPECT_FALSE(flash(one, "arm/neon"));
  // Several steps of one kernel link it once.
  for (const char* target : kTargets) {
    ASSERT_TRUE(flash(one, target)) << target;
    EXPECT_EQ(flash(one, target)->kernels,
              *kernel_text("run", target) + *kernel_text("reference::ready::kDenseI8Double", target))
        << target;
  }
  const LoadedModel model({reinterpret_cast<const uint8_t*>(two.data()), two.size()}, "draft", "");
  uint64_t sum = *kernel_text("run", "arm/m4");
  const StaticTables tables = static_tables(model, 0, *find_machine("arm/m4"));
  for (const StaticTables::BoundStep& call : tables.infer().calls) sum += *kernel_text(call.function, "arm/m4");
  EXPECT_LT(flash(two, "arm/m4")->kernels, sum);
  EXPECT_GT(flash(two, "arm/m4")->tables, 0u);
}

}  // namespace
}  // namespace nacre::tools

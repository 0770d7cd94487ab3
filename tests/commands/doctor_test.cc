// Tests nacre doctor: its facts agree with other commands and with the lists of packages, and what is missing has a
// remedy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "ports/cuda/driver.h"
#include "ports/x86/x86.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/commands/doctor/facts.h"
#include "tools/commands/doctor/self_test.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

// Runs `nacre doctor --json` after the shell's words `before`, such as "ulimit -v 4000000;".
Json facts_after(const std::string& before, int expected_code = 0) {
  const TemporaryDirectory folder;
  const std::string out = folder / "out.json";
  const std::string command = "bash -c '" + before + " \"$NACRE_TOOL\" doctor --json' >" + out;
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), expected_code) << command;
  const std::vector<uint8_t> bytes = read_bytes(out);
  return Json::parse(std::string(bytes.begin(), bytes.end()));
}

Json fact(const Json& all, const std::string& name) {
  for (const Json& each : all["facts"])
    if (each["name"] == name) return each;
  return {};
}

TEST(doctor, each_fact_has_a_name_and_what_can_be_added_a_remedy) {
  const Json all = facts_after("");
  EXPECT_EQ(all["works"], true);
  std::set<std::string> names;
  for (const Json& each : all["facts"]) {
    EXPECT_TRUE(names.insert(each["name"].get<std::string>()).second) << each;
    EXPECT_NE(each["is"], "") << each;
    const bool remedied = each["state"] != "there" && each["state"] != "not here";
    EXPECT_EQ(each["remedy"] != "", remedied) << each;
  }
  const std::string text = run_tool({"doctor"}).out;
  for (const std::string& name : names) EXPECT_TRUE(has(text, "  " + name + "  ")) << name;
  EXPECT_TRUE(has(text, "Nacre works here."));
}

TEST(doctor, tiers_are_those_of_nacre_kernels) {
  const Json all = facts_after("");
  const Json sets = Json::parse(run_tool({"kernels", "--json"}).out)["sets"];
  for (const Json& set : sets) {
    const std::string name = set["set"].get<std::string>();
    const Json tier = fact(all, "tier " + name);
    EXPECT_TRUE(tier.is_null() || (tier["state"] == "there") == set["runs_here"].get<bool>()) << tier;
    const bool picked = fact(all, "picked")["is"].get<std::string>().starts_with(name + " ");
    EXPECT_EQ(picked, set["auto"].get<bool>()) << set;
  }
}

TEST(doctor, limits_of_the_process_are_told_with_their_remedy) {
  EXPECT_EQ(fact(facts_after("ulimit -v 8000000;"), "address space")["is"], "8,192,000,000 bytes");
  EXPECT_EQ(fact(facts_after("ulimit -f 100000;"), "size of a file")["state"], "limited");
  EXPECT_EQ(fact(facts_after("ulimit -n 100;"), "open files")["state"], "limited");
  EXPECT_EQ(fact(facts_after("TMPDIR=/no/such/folder"), "temporary files")["state"], "missing");
  EXPECT_EQ(fact(facts_after("TMPDIR=/tmp"), "temporary files")["state"], "there");
}

TEST(doctor, packages_are_those_of_the_script) {
  setenv("DOCTOR_PATH", std::getenv("PATH"), 1);
  setenv("PATH", "/no/such/folder", 1);
  const Facts facts = firmware_facts();
  setenv("PATH", std::getenv("DOCTOR_PATH"), 1);
  const TemporaryDirectory folder;
  const std::string out = folder / "packages", root = project_path("tools/packages.sh");
  ASSERT_EQ(std::system(("bash -c '. " + root + "; packages_of firmware; packages_of arm' >" + out).c_str()), 0);
  const std::vector<uint8_t> bytes = read_bytes(out);
  std::string known = " " + std::string(bytes.begin(), bytes.end());
  std::ranges::replace(known, '\n', ' ');
  for (const Fact& each : facts) {
    EXPECT_EQ(each.presence, Presence::kMissing);
    const std::string begin = "apt-get install ";
    ASSERT_TRUE(each.remedy.starts_with(begin)) << each.name;
    std::istringstream packages(each.remedy.substr(begin.size()));
    for (std::string package; packages >> package;) EXPECT_TRUE(has(known, " " + package + " ")) << package;
  }
  EXPECT_EQ(install("xnnpack"), "apt-get install libxnnpack-dev libpthreadpool-dev");
  EXPECT_EQ(install("firmware", "riscv64"), "apt-get install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf");
}

TEST(doctor, the_self_test_passes_with_each_port_and_finds_a_kernel_without_an_effect) {
  std::vector<const Port*> ports;
  for (const TierHere& tier : tiers_here())
    if (tier.compiled && tier.processor_has) ports.push_back(port_named(tier.name));
  EXPECT_TRUE(test_kernels(ports).empty());

  std::vector<KernelEntry> entries;
  for (const KernelEntry* entry : reference::kernels().entries) entries.push_back(*entry);
  std::vector<const KernelEntry*> list;
  for (KernelEntry& entry : entries) {
    if (entry.op == Op::kDense) entry.run = [](const Args&) { return Code::kOk; };
    list.push_back(&entry);
  }
  const KernelSet set = {"idle", list};
  Port idle = x86::port(x86::Tier::kPortable);
  idle.name = "idle", idle.set = &set;
  const Port* const broken[] = {&idle};
  const std::vector<std::string> differences = test_kernels(broken);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_TRUE(differences[0].starts_with("idle under float32: differs by ")) << differences[0];
}

TEST(doctor, gpus_are_told_with_their_target) {
  cuda::Driver driver = {};
  driver.init = [](unsigned) -> cuda::Result { return cuda::kSuccess; };
  driver.driver_version = [](int* version) -> cuda::Result { return *version = 13010, cuda::kSuccess; };
  driver.device_count = [](int* count) -> cuda::Result { return *count = 2, cuda::kSuccess; };
  driver.device_get = [](cuda::DeviceNumber* device, int i) -> cuda::Result { return *device = i, cuda::kSuccess; };
  driver.device_name = [](char* name, int, cuda::DeviceNumber device) -> cuda::Result {
    name[0] = char('A' + device), name[1] = 0;
    return cuda::kSuccess;
  };
  driver.device_attribute = [](int* value, cuda::DeviceAttribute attribute, cuda::DeviceNumber) -> cuda::Result {
    return *value = attribute == cuda::kCapabilityMajor ? 9 : 0, cuda::kSuccess;
  };
  const Facts here = gpu_facts(&driver, true, false);
  EXPECT_EQ(here[0].is, "of CUDA 13.1");
  EXPECT_EQ(here[1].is, "A, compute capability 9.0: --target cuda/sm90");
  EXPECT_EQ(here[2].name, "GPU 1");
  EXPECT_EQ(here[4].presence, Presence::kThere);
  EXPECT_EQ(here[5].remedy, "install NVIDIA's libnccl2");

  driver.driver_version = [](int* version) -> cuda::Result { return *version = 12040, cuda::kSuccess; };
  EXPECT_EQ(gpu_facts(&driver, true, true)[0].presence, Presence::kMissing);
  const Facts none = gpu_facts(nullptr, false, false);
  EXPECT_EQ(none[0].presence, Presence::kMissing);
  EXPECT_EQ(none[1].name, "GPU");
}

TEST(doctor, fields_of_system_files_are_read_by_their_names) {
  const std::string text = "model\t\t: 1\nmodel name\t: A B\nflags :\nMemTotal:   12 kB\n";
  EXPECT_EQ(field_of(text, "model name"), "A B");
  EXPECT_EQ(field_of(text, "model"), "1");
  EXPECT_EQ(field_of(text, "MemTotal"), "12 kB");
  EXPECT_EQ(field_of(text, "flags"), "");
  EXPECT_EQ(field_of(text, "nothing"), "");
}

}  // namespace
}  // namespace nacre::tools

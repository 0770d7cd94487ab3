// Tests that every function of the C API refuses NULL for each pointer that must not be NULL, and a struct without
// the size that it needs. The refusal names the argument, and nothing else happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "ports/files/files_c.h"
#include "tests/model/execute.h"

namespace nacre::test {
namespace {

void expect_argument(nacre_status status, uint32_t index) {
  EXPECT_EQ(status.code, NACRE_ARGUMENT);
  EXPECT_EQ(status.index, index);
}

template <class T>
T sized() {
  T made = {};
  made.size = sizeof made;
  return made;
}

// A model that was opened, and the handles bound to it.
struct Opened {
  Buffer file, memory;
  nacre_model model;
  nacre_program program;
  nacre_sizes sizes = sized<nacre_sizes>();

  explicit Opened(const Draft& draft) : file(pack(draft)), memory(1 << 16) {
    EXPECT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
    EXPECT_EQ(nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory.data(), memory.size()).code, 0);
  }
};

TEST(c_api_arguments, of_models) {
  Opened o(dense_int8());
  expect_argument(nacre_model_open(nullptr, o.file.data(), o.file.size()), 0);
  nacre_model other;
  EXPECT_EQ(Code(nacre_model_open(&other, nullptr, 64).code), Code::kNull);
  expect_argument(nacre_model_attach(nullptr, 0, o.file.data(), 64), 0);
  expect_argument(nacre_model_attach(&o.model, 0, nullptr, 64), 2);
  expect_argument(nacre_model_check_weights(nullptr), 0);
  EXPECT_EQ(nacre_model_program_count(nullptr), 0u);
  EXPECT_EQ(nacre_model_tensor_count(nullptr), 0u);
  EXPECT_EQ(nacre_model_metadata_count(nullptr), 0u);
  EXPECT_EQ(nacre_model_metadata(nullptr, "key"), nullptr);
  EXPECT_EQ(nacre_model_metadata(&o.model, nullptr), nullptr);
  size_t length = 7;
  EXPECT_EQ(nacre_model_label(nullptr, 0, &length), nullptr);
  EXPECT_EQ(length, 0u);
  EXPECT_EQ(nacre_model_label(&o.model, 9, nullptr), nullptr);

  auto info = sized<nacre_tensor_info>();
  nacre_tensor_info unsized = {};
  expect_argument(nacre_model_input(nullptr, "x", &info), 0);
  expect_argument(nacre_model_input(&o.model, nullptr, &info), 1);
  expect_argument(nacre_model_input(&o.model, "x", nullptr), 2);
  expect_argument(nacre_model_input(&o.model, "x", &unsized), 2);
  expect_argument(nacre_model_output(&o.model, nullptr, &info), 1);
  expect_argument(nacre_model_input_at(nullptr, 0, 0, &info), 0);
  expect_argument(nacre_model_input_at(&o.model, 0, 0, &unsized), 3);
  expect_argument(nacre_model_output_at(&o.model, 0, 0, nullptr), 3);
  expect_argument(nacre_model_tensor(&o.model, 0, &unsized), 2);
  uint32_t program = 0;
  expect_argument(nacre_model_find(nullptr, NACRE_INFER, nullptr, &program), 0);
  expect_argument(nacre_model_find(&o.model, NACRE_INFER, nullptr, nullptr), 3);
  nacre_program_info no_program = {};
  nacre_step_info no_step = {};
  expect_argument(nacre_model_program(&o.model, 0, &no_program), 2);
  expect_argument(nacre_model_step(&o.model, 0, 0, &no_step), 3);
  const char* text = nullptr;
  expect_argument(nacre_model_metadata_at(&o.model, 0, nullptr, &text), 2);
  expect_argument(nacre_model_metadata_at(&o.model, 0, &text, nullptr), 3);
}

TEST(c_api_arguments, of_programs) {
  Opened o(dense_int8());
  const nacre_kernels* const kernels[] = {nacre_reference_kernels()};
  const nacre_kernels* const missing[] = {nullptr};
  const nacre_workers no_run = {nullptr, 2, nullptr, 0};
  nacre_sizes unsized = {};
  expect_argument(nacre_program_measure(nullptr, 0, kernels[0], &o.sizes), 0);
  expect_argument(nacre_program_measure(&o.model, 0, nullptr, &o.sizes), 2);
  expect_argument(nacre_program_measure(&o.model, 0, kernels[0], nullptr), 3);
  expect_argument(nacre_program_measure(&o.model, 0, kernels[0], &unsized), 3);
  expect_argument(nacre_program_measure_with(&o.model, 0, missing, 1, nullptr, &o.sizes), 2);
  expect_argument(nacre_program_measure_with(&o.model, 0, nullptr, 1, nullptr, &o.sizes), 2);
  expect_argument(nacre_program_measure_with(&o.model, 0, kernels, 1, &no_run, &o.sizes), 4);
  nacre_program other;
  expect_argument(nacre_program_bind(nullptr, &o.model, 0, kernels[0], o.memory.data(), o.memory.size()), 0);
  expect_argument(nacre_program_bind(&other, nullptr, 0, kernels[0], o.memory.data(), o.memory.size()), 1);
  expect_argument(nacre_program_bind(&other, &o.model, 0, nullptr, o.memory.data(), o.memory.size()), 3);
  expect_argument(nacre_program_bind_with(&other, &o.model, 0, kernels, 1, &no_run, o.memory.data(), o.memory.size()),
                  5);
  EXPECT_EQ(nacre_program_input_count(nullptr), 0u);
  EXPECT_EQ(nacre_program_output_count(nullptr), 0u);
  EXPECT_EQ(nacre_program_step_count(nullptr), 0u);
  size_t size = 7;
  EXPECT_EQ(nacre_program_input(nullptr, 0, &size), nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_NE(nacre_program_input(&o.program, 0, nullptr), nullptr) << "who knows the size need not ask for it";
  EXPECT_EQ(nacre_program_output(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(nacre_program_tensor(nullptr, 0, nullptr), nullptr);
  expect_argument(nacre_program_start(nullptr), 0);
  expect_argument(nacre_program_run(nullptr), 0);
  expect_argument(nacre_program_run_rows(nullptr, 1), 0);
  expect_argument(nacre_program_run_steps(nullptr, 0, 1, 0), 0);
  expect_argument(nacre_program_run_hooked(&o.program, 0, nullptr, nullptr), 2);
}

TEST(c_api_arguments, of_trainers_and_storages) {
  Opened o(training());
  nacre_trainer trainer;
  const nacre_kernels* const kernels[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_EQ(nacre_trainer_bind(&trainer, &o.model, "host", kernels, 2, o.memory.data(), o.memory.size()).code, 0);
  ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
  expect_argument(nacre_trainer_measure(nullptr, nullptr, kernels, 2, &o.sizes), 0);
  expect_argument(nacre_trainer_measure(&o.model, nullptr, nullptr, 2, &o.sizes), 2);
  nacre_sizes unsized = {};
  expect_argument(nacre_trainer_measure(&o.model, nullptr, kernels, 2, &unsized), 4);
  expect_argument(nacre_trainer_bind(nullptr, &o.model, nullptr, kernels, 2, o.memory.data(), 1), 0);
  expect_argument(nacre_trainer_start(nullptr), 0);
  expect_argument(nacre_trainer_restored(nullptr), 0);
  EXPECT_EQ(nacre_trainer_input_count(nullptr), 0u);
  EXPECT_EQ(nacre_trainer_output_count(nullptr), 0u);
  EXPECT_EQ(nacre_trainer_input(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(nacre_trainer_output(nullptr, 0, nullptr), nullptr);
  expect_argument(nacre_trainer_accumulate(nullptr, 0), 0);
  nacre_report no_report = {};
  expect_argument(nacre_trainer_commit(nullptr, 0.1f, nullptr), 0);
  expect_argument(nacre_trainer_commit(&trainer, 0.1f, &no_report), 2);
  nacre_trainer_discard(nullptr);
  EXPECT_EQ(nacre_trainer_infer(nullptr), nullptr);
  EXPECT_EQ(nacre_trainer_state(nullptr, nullptr), nullptr);
  EXPECT_EQ(nacre_parameter_count(nullptr), 0u);
  nacre_tensor_info unsized_info = {};
  expect_argument(nacre_trainer_parameter_at(nullptr, &trainer, 0, nullptr, nullptr), 0);
  expect_argument(nacre_trainer_parameter_at(&o.model, nullptr, 0, nullptr, nullptr), 1);
  expect_argument(nacre_trainer_parameter(&o.model, &trainer, nullptr, nullptr, nullptr), 2);
  expect_argument(nacre_trainer_parameter(&o.model, &trainer, "w", &unsized_info, nullptr), 3);

  nacre_storage storage = sized<nacre_storage>();
  uint64_t bytes = 0;
  expect_argument(nacre_checkpoint_measure(nullptr, &storage, 0, &bytes), 0);
  expect_argument(nacre_checkpoint_measure(&o.model, nullptr, 0, &bytes), 1);
  expect_argument(nacre_checkpoint_measure(&o.model, &storage, 0, nullptr), 3);
  expect_argument(nacre_checkpoint_save(&o.model, nullptr, &storage, 0, nullptr, 0), 1);
  expect_argument(nacre_checkpoint_save(&o.model, &trainer, nullptr, 0, nullptr, 0), 2);
  nacre_checkpoint_report unsized_report = {};
  expect_argument(nacre_checkpoint_load(&o.model, &trainer, &storage, &unsized_report, nullptr, 0), 3);
  expect_argument(nacre_checkpoint_look(nullptr, nullptr), 0);
  expect_argument(nacre_checkpoint_look(&storage, &unsized_report), 1);
  nacre_model closed;
  EXPECT_NE(nacre_model_open(&closed, nullptr, 0).code, 0);
  storage.program_bytes = storage.erase_bytes = 1;
  storage.bytes = 4096;
  EXPECT_EQ(Code(nacre_checkpoint_save(&closed, &trainer, &storage, 0, nullptr, 0).code), Code::kNotBound);
  expect_argument(nacre_checkpoint_confirm(nullptr), 0);
  expect_argument(nacre_checkpoint_revert(nullptr), 0);
  storage.size = 0;
  expect_argument(nacre_checkpoint_measure(&o.model, &storage, 0, &bytes), 1);
  expect_argument(nacre_checkpoint_save(&o.model, &trainer, &storage, 0, nullptr, 0), 2);
  expect_argument(nacre_checkpoint_look(&storage, nullptr), 0);
  expect_argument(nacre_checkpoint_confirm(&storage), 0);
  expect_argument(nacre_checkpoint_revert(&storage), 0);

  nacre_model_slots slots;
  nacre_model_slots_make(nullptr, &storage);
  nacre_model_slots_make(&slots, nullptr);
  nacre_slot found = {};
  expect_argument(nacre_model_slots_find(&slots, &found, nullptr), 0);
  expect_argument(nacre_model_slots_find(nullptr, &found, nullptr), 0);
  nacre_model_slots_make(&slots, &storage);
  expect_argument(nacre_model_slots_begin(&slots, 0, 64), 0);
  storage.size = sizeof storage;
  storage.program_bytes = storage.erase_bytes = 1;
  nacre_model_slots_make(&slots, &storage);
  expect_argument(nacre_model_slots_find(&slots, &found, nullptr), 1);
  found.size = sizeof found;
  EXPECT_EQ(Code(nacre_model_slots_find(&slots, &found, nullptr).code), Code::kStorageFailed);
  expect_argument(nacre_model_slots_begin(nullptr, 0, 64), 0);
  expect_argument(nacre_model_slots_write(&slots, nullptr, 4), 1);
  expect_argument(nacre_model_slots_finish(nullptr), 0);
  EXPECT_EQ(nacre_model_slots_offset(nullptr), 0u);
}

TEST(c_api_arguments, of_step_sums) {
  Opened o(training());
  nacre_trainer trainer;
  const nacre_kernels* const kernels[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_EQ(nacre_trainer_bind(&trainer, &o.model, "host", kernels, 2, o.memory.data(), o.memory.size()).code, 0);
  ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
  size_t size = 7;
  EXPECT_EQ(nacre_trainer_gradients(nullptr, &size), nullptr);
  EXPECT_EQ(size, 0u);
  void* const sums = nacre_trainer_gradients(&trainer, nullptr);
  EXPECT_EQ(nacre_trainer_gradients(&trainer, &size), sums);
  nacre_gradient_run run;
  EXPECT_EQ(nacre_gradient_run_at(nullptr, 0, &run), 0u);
  EXPECT_EQ(nacre_gradient_run_at(&o.model, 0, nullptr), 0u);
  EXPECT_EQ(nacre_trainer_loss_scale(nullptr, &trainer), 0);
  EXPECT_EQ(nacre_trainer_loss_scale(&o.model, nullptr), 0);
  uint8_t hash[16] = {};
  nacre_model_hash(nullptr, hash);
  nacre_model_hash(&o.model, nullptr);
  nacre_model closed;
  EXPECT_NE(nacre_model_open(&closed, nullptr, 0).code, 0);
  std::ranges::fill(hash, uint8_t{7});
  nacre_model_hash(&closed, hash);
  EXPECT_TRUE(std::ranges::all_of(hash, [](uint8_t byte) { return byte == 0; }));
  expect_argument(nacre_trainer_begin_at(nullptr, 0), 0);
  expect_argument(nacre_trainer_accumulate_apart(nullptr, sums, size, 0), 0);
  expect_argument(nacre_trainer_accumulate_apart(&trainer, nullptr, size, 0), 1);
  expect_argument(nacre_trainer_merged(nullptr, 1), 0);
  expect_argument(nacre_gradients_join(nullptr, sums, sums, size), 0);
  expect_argument(nacre_gradients_join(&o.model, nullptr, sums, size), 1);
  expect_argument(nacre_gradients_join(&o.model, sums, nullptr, size), 2);
}

TEST(c_api_arguments, of_static_programs) {
  EXPECT_EQ(nacre_static_run(nullptr), NACRE_ARGUMENT);
  size_t size = 7;
  EXPECT_EQ(nacre_static_input(nullptr, 0, &size), nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(nacre_static_output(nullptr, 0, nullptr), nullptr);
  nacre_static_start(nullptr);
  EXPECT_EQ(nacre_static_input_count(nullptr), 0u);
  EXPECT_EQ(nacre_static_output_count(nullptr), 0u);
  EXPECT_EQ(nacre_static_step_count(nullptr), 0u);
  EXPECT_EQ(nacre_static_run_steps(nullptr, 0, 0), NACRE_ARGUMENT);
  EXPECT_EQ(nacre_static_run_hooked(nullptr, nullptr, nullptr), NACRE_ARGUMENT);
  EXPECT_EQ(nacre_static_intact(nullptr), 0);
  EXPECT_EQ(nacre_static_self_test(nullptr, nullptr, nullptr), -1);
  EXPECT_EQ(nacre_static_trainer_immediate(nullptr), 0);
  nacre_static_trainer_make(nullptr, nullptr);
  EXPECT_EQ(nacre_static_trainer_start(nullptr), NACRE_ARGUMENT);
  EXPECT_EQ(nacre_static_trainer_accumulate(nullptr), NACRE_ARGUMENT);
  EXPECT_EQ(nacre_static_trainer_commit(nullptr, 0, nullptr), NACRE_ARGUMENT);
  EXPECT_EQ(nacre_static_trainer_input(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(nacre_static_trainer_state(nullptr, nullptr), nullptr);
}

TEST(c_api_arguments, of_schedules) {
  nacre_schedule schedule = {sizeof schedule, NACRE_COSINE, 0.5f, 100, 0, 0.1f, 10, 0.25f, 0};
  float rate = -1;
  ASSERT_EQ(nacre_schedule_rate(&schedule, 0, &rate).code, 0);
  EXPECT_EQ(rate, 0.125f);
  ASSERT_EQ(nacre_schedule_rate(&schedule, 200, &rate).code, 0);
  EXPECT_EQ(rate, float(0.5 * double(0.1f)));
  expect_argument(nacre_schedule_rate(nullptr, 0, &rate), 0);
  expect_argument(nacre_schedule_rate(&schedule, 0, nullptr), 2);
  schedule.kind = 5;
  expect_argument(nacre_schedule_rate(&schedule, 0, &rate), 0);
  schedule.kind = NACRE_COSINE, schedule.end = 2;
  expect_argument(nacre_schedule_rate(&schedule, 0, &rate), 0);
  schedule.size = 0;
  expect_argument(nacre_schedule_rate(&schedule, 0, &rate), 0);
}

// ---- Results of the new functions ----

struct Seen {
  int before = 0, behind = 0;
  uint32_t last = 0;
};

TEST(c_api, a_hook_sees_every_step_and_the_output_stays_the_same) {
  Opened o(dense_int8());
  size_t size = 0;
  void* const input = nacre_program_input(&o.program, 0, &size);
  std::memset(input, 3, size);
  ASSERT_EQ(nacre_program_run(&o.program).code, 0);
  size_t bytes = 0;
  const void* const output = nacre_program_output(&o.program, 0, &bytes);
  const std::vector<uint8_t> expected(static_cast<const uint8_t*>(output), static_cast<const uint8_t*>(output) + bytes);

  std::memset(nacre_program_input(&o.program, 0, &size), 3, size);
  Seen seen;
  const nacre_step_hook hook = [](void* context, uint32_t step, int ended) {
    auto& s = *static_cast<Seen*>(context);
    (ended != 0 ? s.behind : s.before) += 1;
    s.last = step;
  };
  ASSERT_EQ(nacre_program_run_hooked(&o.program, 0, hook, &seen).code, 0);
  EXPECT_EQ(seen.before, int(nacre_program_step_count(&o.program)));
  EXPECT_EQ(seen.behind, seen.before);
  EXPECT_EQ(seen.last + 1, nacre_program_step_count(&o.program));
  EXPECT_EQ(std::memcmp(output, expected.data(), bytes), 0);
  nacre_program unbound = {};
  EXPECT_EQ(Code(nacre_program_run_hooked(&unbound, 0, hook, &seen).code), Code::kNotBound);
}

// A reference kernel that records how many threads it was given.
Kernel told_kernel = nullptr;
int told_threads = 0;
Code telling(const Args& args) {
  told_threads = args.workers == nullptr ? 1 : args.workers->count;
  return told_kernel(args);
}

TEST(c_api, kernels_are_given_the_threads_of_the_caller) {
  Opened o(dense_int8());
  Bound bound;
  ASSERT_TRUE(bound.open(o.file.bytes()).ok());
  told_kernel = bound.program.kernel(0);
  KernelEntry entry = {};
  for (const KernelEntry* each : reference::kernels().entries)
    if (each->run == told_kernel) entry = *each;
  ASSERT_EQ(entry.run, told_kernel);
  entry.run = telling;
  const KernelEntry* const entries[] = {&entry};
  const KernelSet set = {"telling", entries};
  const nacre_kernels* const kernels[] = {&set, nacre_reference_kernels()};
  const nacre_workers workers = {nullptr, 2,
                                 [](void*, void (*task)(void*, int, int), void* task_context, int tiles) {
                                   for (int i = 0; i < tiles; ++i) task(task_context, i, i % 2);
                                 },
                                 0};
  for (const nacre_workers* given : {static_cast<const nacre_workers*>(nullptr), &workers}) {
    nacre_program program;
    ASSERT_EQ(nacre_program_bind_with(&program, &o.model, 0, kernels, 2, given, o.memory.data(), o.memory.size()).code,
              0);
    told_threads = 0;
    ASSERT_EQ(nacre_program_run(&program).code, 0);
    EXPECT_EQ(told_threads, given == nullptr ? 1 : 2);
  }
}

// Attached weights replace the file's: all zeros give another output.
TEST(c_api, weights_apart_from_the_file_are_those_that_run) {
  Opened o(dense_int8());
  const auto output = [&] {
    size_t size = 0;
    std::memset(nacre_program_input(&o.program, 0, &size), 3, 8);
    EXPECT_EQ(nacre_program_run(&o.program).code, 0);
    const auto* bytes = static_cast<const uint8_t*>(nacre_program_output(&o.program, 0, &size));
    return std::vector<uint8_t>(bytes, bytes + size);
  };
  const std::vector<uint8_t> before = output();
  alignas(64) std::byte zeros[4096] = {};
  ASSERT_EQ(nacre_model_attach(&o.model, 0, zeros, sizeof zeros).code, 0);
  EXPECT_EQ(Code(nacre_program_run(&o.program).code), Code::kNotBound) << "it points at what was there before";
  ASSERT_EQ(
      nacre_program_bind(&o.program, &o.model, 0, nacre_reference_kernels(), o.memory.data(), o.memory.size()).code, 0);
  EXPECT_NE(output(), before);
  EXPECT_NE(nacre_model_attach(&o.model, 0, zeros + 1, sizeof zeros - 64).code, 0);
}

TEST(c_api, checkpoints_lie_in_files_of_a_directory) {
  Opened o(training());
  nacre_trainer trainer;
  const nacre_kernels* const kernels[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_EQ(nacre_trainer_bind(&trainer, &o.model, "host", kernels, 2, o.memory.data(), o.memory.size()).code, 0);
  ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
  char folder[] = "/tmp/nacre-c-files-XXXXXX", why[200] = {};
  ASSERT_NE(mkdtemp(folder), nullptr);
  auto storage = sized<nacre_storage>();
  EXPECT_EQ(nacre_checkpoint_files_open("/nowhere/at/all", 1, &o.model, &storage, why, sizeof why), nullptr);
  EXPECT_NE(std::strstr(why, "/nowhere/at/all: "), nullptr) << why;
  EXPECT_EQ(nacre_checkpoint_files_open(folder, 0, &o.model, &storage, why, sizeof why), nullptr);
  EXPECT_NE(std::strstr(why, "is no directory with checkpoints"), nullptr) << why;
  for (uint32_t generation = 1; generation <= 2; ++generation) {
    nacre_checkpoint_files* const files = nacre_checkpoint_files_open(folder, 1, &o.model, &storage, why, sizeof why);
    ASSERT_NE(files, nullptr) << why;
    ASSERT_EQ(nacre_checkpoint_save(&o.model, &trainer, &storage, 0, nullptr, 0).code, 0);
    EXPECT_STREQ(nacre_checkpoint_files_problem(files), "");
    nacre_checkpoint_files_close(files);
  }
  nacre_checkpoint_files* const files = nacre_checkpoint_files_open(folder, 0, &o.model, &storage, why, sizeof why);
  ASSERT_NE(files, nullptr) << why;
  const Opened another(dense_int8());  // the trainer does not train this one
  EXPECT_EQ(Code(nacre_checkpoint_save(&another.model, &trainer, &storage, 0, nullptr, 0).code),
            Code::kCheckpointModel);
  auto report = sized<nacre_checkpoint_report>();
  ASSERT_EQ(nacre_checkpoint_load(&o.model, &trainer, &storage, &report, nullptr, 0).code, 0);
  EXPECT_EQ(report.generation, 2u);
  nacre_checkpoint_files_close(files);
  nacre_checkpoint_files_close(nullptr);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nacre::test

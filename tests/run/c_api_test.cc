// Tests that the C API gives the results of the C++ API. c_api_user.c compiles nacre_c.h itself as C.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "tests/model/execute.h"

extern "C" int nacre_c_run(const void* bytes, size_t size, void* memory, size_t memory_size, void* output,
                           size_t output_size, nacre_status* status);

extern "C" int nacre_c_train(const void* bytes, size_t size, void* memory, size_t memory_size, int steps,
                             const nacre_storage* storage, int resume, void* state, size_t state_size,
                             nacre_report* report, nacre_status* status);

// nacre_c_run and nacre_c_train, compiled against the headers of earlier versions (tests/abi).
extern "C" {
decltype(nacre_c_run) nacre_c_run_1, nacre_c_run_2, nacre_c_run_3, nacre_c_run_4;
decltype(nacre_c_train) nacre_c_train_1, nacre_c_train_2, nacre_c_train_3, nacre_c_train_4;
}

namespace nacre::test {
namespace {

constexpr auto kRuns = {nacre_c_run, nacre_c_run_1, nacre_c_run_2, nacre_c_run_3, nacre_c_run_4};
constexpr auto kTrains = {nacre_c_train, nacre_c_train_1, nacre_c_train_2, nacre_c_train_3, nacre_c_train_4};

TEST(c_api, gives_the_bytes_of_the_cpp_api) {
  Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  std::memset(b.program.input(0).data(), 3, b.program.input(0).size());
  ASSERT_TRUE(b.program.run().ok());
  Buffer memory(4096);
  for (const auto run : kRuns) {
    std::vector<std::byte> output(b.program.output(0).size());
    nacre_status status;
    ASSERT_EQ(run(file.data(), file.size(), memory.data(), memory.size(), output.data(), output.size(), &status), 0)
        << nacre_sentence(status.code);
    EXPECT_EQ(std::memcmp(output.data(), b.program.output(0).data(), output.size()), 0);
  }
}

TEST(c_api, passes_refusals_on) {
  Buffer file = pack(dense_int8());
  Buffer memory(16);
  nacre_status status;
  EXPECT_NE(nacre_c_run(file.data(), file.size(), memory.data(), memory.size(), nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemorySize);
  EXPECT_GT(status.needed, status.given);
  EXPECT_NE(nacre_c_run(file.data(), file.size() - 1, memory.data(), memory.size(), nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kLengthOver);
}

TEST(c_api, memory_that_is_nowhere_or_over_the_model_is_refused) {
  Buffer file = pack(dense_int8());
  const Buffer before = file;
  nacre_status status;
  EXPECT_NE(nacre_c_run(file.data(), file.size(), nullptr, 4096, nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemorySize);
  EXPECT_EQ(Table(status.table), Table::kMemory);
  EXPECT_EQ(status.given, 0u);
  ASSERT_GT(file.size(), 1024u);
  EXPECT_NE(nacre_c_run(file.data(), file.size(), file.data() + 64, file.size() - 64, nullptr, 0, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemoryOverlap);
  EXPECT_EQ(std::memcmp(file.data(), before.bytes().data(), file.size()), 0);
}

// A second open of a model's handle undoes the bindings of its programs, whether it succeeds or not.
TEST(c_api, another_open_of_a_handle_undoes_what_is_bound_to_it) {
  const Buffer file = pack(dense_int8()), other = pack(casts());
  const size_t sizes_of_second[] = {other.size(), 100};
  for (const size_t second : sizes_of_second) {
    nacre_model model;
    nacre_program program;
    Buffer memory(4096);
    ASSERT_EQ(nacre_model_open(&model, file.bytes().data(), file.size()).code, 0);
    ASSERT_EQ(nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory.data(), memory.size()).code, 0);
    ASSERT_EQ(nacre_program_run(&program).code, 0);
    EXPECT_EQ(nacre_model_open(&model, other.bytes().data(), second).code == 0, second == other.size());
    EXPECT_EQ(nacre_program_input_count(&program), 0u);
    size_t bytes = 1;
    EXPECT_EQ(nacre_program_input(&program, 0, &bytes), nullptr);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(Code(nacre_program_run(&program).code), Code::kNotBound);
  }
}

// Two files take the same memory one after the other. Only their bytes tell them apart.
TEST(c_api, another_file_at_the_same_place_is_another_model) {
  Draft described = dense_int8();
  described.metadata = {{"description", "the same network with other bytes"}};
  const Buffer first = pack(dense_int8()), other = pack(described);
  Buffer place(std::max(first.size(), other.size()));
  std::memcpy(place.data(), first.bytes().data(), first.size());
  nacre_model model;
  nacre_program program;
  Buffer memory(4096);
  ASSERT_EQ(nacre_model_open(&model, place.data(), first.size()).code, 0);
  ASSERT_EQ(nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory.data(), memory.size()).code, 0);
  std::memcpy(place.data(), other.bytes().data(), other.size());
  ASSERT_EQ(nacre_model_open(&model, place.data(), other.size()).code, 0);
  EXPECT_EQ(Code(nacre_program_run(&program).code), Code::kNotBound);
}

TEST(c_api, an_older_caller_gets_the_sizes_it_knows) {
  Buffer file = pack(dense_int8());
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
  nacre_sizes sizes;
  std::memset(&sizes, 0x5A, sizeof sizes);
  sizes.size = offsetof(nacre_sizes, prepared);  // a struct that ends after `calls`
  ASSERT_EQ(nacre_program_measure(&model, 0, nacre_reference_kernels(), &sizes).code, 0);
  EXPECT_GT(sizes.calls, 0u);
  EXPECT_EQ(sizes.prepared, 0x5A5A5A5A5A5A5A5Au);
}

// ---- Training ----

// A storage of 4 KiB in memory.
struct Bytes {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(4096, 0xFF);
  int flushes = 0;

  nacre_storage storage() {
    nacre_storage s = {};
    s.size = sizeof s, s.program_bytes = 4, s.erase_bytes = 256, s.bytes = bytes.size(), s.context = this;
    s.read = [](void* c, uint64_t at, void* to, size_t n) { return std::memcpy(to, of(c).bytes.data() + at, n), 1; };
    s.program = [](void* c, uint64_t at, const void* from, size_t n) {
      return std::memcpy(of(c).bytes.data() + at, from, n), 1;
    };
    s.erase = [](void* c, uint64_t at) { return std::memset(of(c).bytes.data() + at, 0xFF, 256), 1; };
    s.flush = [](void* c) { return ++of(c).flushes, 1; };
    return s;
  }
  static Bytes& of(void* context) { return *static_cast<Bytes*>(context); }
};

void expect_training(decltype(&nacre_c_train) train) {
  Buffer file = pack(training());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Sizes sizes;
  ASSERT_TRUE(Trainer::measure(model, "host", reference_kernels(), &sizes).ok());
  Blocks blocks(sizes);
  Trainer trainer;
  ASSERT_TRUE(trainer.bind(model, "host", reference_kernels(), blocks.memory).ok());
  ASSERT_TRUE(trainer.start().ok());
  Trainer::Report expected;
  for (int step = 0; step < 6; ++step) {  // as c_api_user.c
    for (size_t i = 0; i < trainer.input(0).size() / 4; ++i) {
      const float v = float((int(i) * 7 + step) % 5) * 0.25f;
      std::memcpy(trainer.input(0).data() + 4 * i, &v, 4);
    }
    for (size_t i = 0; i < trainer.input(1).size() / 4; ++i) {
      const int32_t label = int32_t(i) % 3;
      std::memcpy(trainer.input(1).data() + 4 * i, &label, 4);
    }
    ASSERT_TRUE(trainer.accumulate().ok());
    ASSERT_TRUE(trainer.commit(0.25f, &expected).ok());
  }
  Bytes bytes;
  const nacre_storage storage = bytes.storage();
  Buffer memory(sizes.total());
  std::vector<std::byte> state(trainer.state().size());
  nacre_status status;
  for (const bool resume : {false, true}) {  // 3 steps and a save, then 3 more as in a second process
    nacre_report report;
    std::memset(&report, 0x5A, sizeof report);
    report.size = sizeof report;
    ASSERT_EQ(train(file.data(), file.size(), memory.data(), memory.size(), 3, &storage, resume, state.data(),
                    state.size(), &report, &status),
              0)
        << nacre_sentence(status.code);
    if (!resume) continue;
    EXPECT_EQ(std::memcmp(state.data(), trainer.state().data(), state.size()), 0);
    EXPECT_EQ(report.size, sizeof report);
    EXPECT_EQ(report.applied, 1u);
    EXPECT_EQ(report.overflow_at_floor, 0u);
    EXPECT_EQ(report.refused_in_row, 0u);
    EXPECT_EQ(report.loss, expected.loss);
    EXPECT_EQ(report.norm, expected.norm);
    EXPECT_EQ(report.loss_scale, expected.loss_scale);
    EXPECT_EQ(report.samples, expected.samples);
  }
  EXPECT_EQ(bytes.flushes, 5) << "payload and header of two saves, and the confirm";
  nacre_checkpoint_report seen = {};
  seen.size = sizeof seen;
  ASSERT_EQ(nacre_checkpoint_look(&storage, &seen).code, 0);
  EXPECT_EQ(seen.generation, 2u);
  EXPECT_EQ(seen.pending, 0u);
  ASSERT_EQ(nacre_checkpoint_revert(&storage).code, 0);
  ASSERT_EQ(nacre_checkpoint_look(&storage, &seen).code, 0);
  EXPECT_EQ(seen.generation, 1u);
  // Calls that must be refused.
  EXPECT_NE(train(file.data(), file.size(), nullptr, memory.size(), 1, &storage, 0, nullptr, 0, nullptr, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemorySize);
  EXPECT_EQ(status.given, 0u);
  EXPECT_NE(train(file.data(), file.size(), file.data(), file.size(), 1, &storage, 0, nullptr, 0, nullptr, &status), 0);
  EXPECT_EQ(Code(status.code), Code::kMemoryOverlap);
  nacre_storage older = storage;
  older.size = offsetof(nacre_storage, flush);
  EXPECT_EQ(Code(nacre_checkpoint_look(&older, &seen).code), Code::kArgument);
  EXPECT_NE(
      train(file.data(), file.size(), memory.data(), memory.size() - 16, 1, &storage, 0, nullptr, 0, nullptr, &status),
      0);
  EXPECT_EQ(Code(status.code), Code::kMemorySize);
}

TEST(c_api, trains_saves_and_resumes_as_the_cpp_api_does) {
  for (const auto train : kTrains) expect_training(train);
}

TEST(c_api, what_may_be_null_is_not_written) {
  Buffer file = pack(training());
  Buffer memory(8192);
  Bytes bytes;
  const nacre_storage storage = bytes.storage();
  nacre_status status;
  std::vector<std::byte> with(4096), without(4096);
  nacre_report report = {};
  report.size = sizeof report;
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  const auto size = size_t(model.region_bytes(Region::kState));
  for (nacre_report* told : {&report, static_cast<nacre_report*>(nullptr)}) {
    std::vector<std::byte>& state = told != nullptr ? with : without;
    state.resize(size);
    ASSERT_EQ(nacre_c_train(file.data(), file.size(), memory.data(), memory.size(), 2, &storage, 0, state.data(), size,
                            told, &status),
              0)
        << nacre_sentence(status.code);
  }
  EXPECT_EQ(with, without);
  // A note whose pointer is null although its size is not 0.
  nacre_model handle;
  nacre_trainer trainer;
  const nacre_kernels* const sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_EQ(nacre_model_open(&handle, file.data(), file.size()).code, 0);
  ASSERT_EQ(nacre_trainer_bind(&trainer, &handle, "host", sets, 2, memory.data(), memory.size()).code, 0);
  ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
  const std::vector<uint8_t> saved = bytes.bytes;
  EXPECT_EQ(Code(nacre_checkpoint_save(&handle, &trainer, &storage, 0, nullptr, 4).code), Code::kNull);
  EXPECT_EQ(Code(nacre_checkpoint_load(&handle, &trainer, &storage, nullptr, nullptr, 4).code), Code::kNull);
  EXPECT_EQ(bytes.bytes, saved);
  EXPECT_EQ(nacre_checkpoint_load(&handle, &trainer, &storage, nullptr, nullptr, 0).code, 0);
}

TEST(c_api, gives_trained_parameters_by_index_and_by_name) {
  Buffer file = pack(training());
  Buffer memory(8192);
  Model model;
  nacre_model handle;
  nacre_trainer trainer;
  const nacre_kernels* const sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  ASSERT_TRUE(model.open(file.bytes()).ok());
  ASSERT_EQ(nacre_model_open(&handle, file.data(), file.size()).code, 0);
  ASSERT_EQ(nacre_trainer_bind(&trainer, &handle, "host", sets, 2, memory.data(), memory.size()).code, 0);
  ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
  const auto* state = static_cast<const std::byte*>(nacre_trainer_state(&trainer, nullptr));
  nacre_tensor_info info = {}, named = {};
  info.size = named.size = sizeof info;
  void* values = nullptr;
  uint32_t found = 0;
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    const TensorRecord& r = model.tensors()[id];
    if (r.region != Region::kState || r.alias_of != kNoIndex || (r.flags & kTrainable) == 0) continue;
    ASSERT_EQ(nacre_trainer_parameter_at(&handle, &trainer, found++, &info, &values).code, 0);
    EXPECT_EQ(info.tensor, id);
    EXPECT_EQ(info.bytes, r.bytes);
    EXPECT_EQ(values, state + r.offset);
    if (info.name[0] == 0) continue;
    void* same = nullptr;
    ASSERT_EQ(nacre_trainer_parameter(&handle, &trainer, info.name, &named, &same).code, 0);
    EXPECT_EQ(named.tensor, id);
    EXPECT_EQ(same, values);
  }
  EXPECT_GT(found, 0u);
  EXPECT_EQ(nacre_parameter_count(&handle), found);
  EXPECT_EQ(nacre_trainer_parameter_at(&handle, &trainer, found, &info, &values).code, NACRE_NO_NAME);
  EXPECT_EQ(nacre_trainer_parameter(&handle, &trainer, "nothing", &info, &values).code, NACRE_NO_NAME);
  EXPECT_EQ(nacre_trainer_parameter_at(&handle, &trainer, 0, nullptr, nullptr).code, 0);
}

}  // namespace
}  // namespace nacre::test

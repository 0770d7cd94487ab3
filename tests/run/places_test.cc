// Tests steps on ports (drivers of devices): copies, begin and finish around runs of steps, and the host's results.
#include "engine/run/places.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/run/placed.h"

namespace nacre::test {
namespace {

// ---- Results ----

TEST(places, every_second_step_on_a_port_changes_no_byte) {
  size_t steps = 0, models = 0;
  for (const ModelCase& c : cases()) {
    const Draft draft = c.make();
    Placed host(draft);
    if (host.model.program(0).entry != Entry::kInfer) continue;
    ASSERT_TRUE(host.bind().ok()) << c.name;
    write_inputs(host.program, host.model);
    const Status expected = host.program.run();
    EXPECT_EQ(host.fake.counts().steps, 0u);
    for (const std::vector<uint8_t>& pattern : {std::vector<uint8_t>{0, 1}, {1, 0}, {1}})
      for (const std::byte poison : {std::byte{0xA5}, std::byte{0x7F}}) {
        Placed placed(with_places(draft, pattern), {.poison = poison});
        ASSERT_TRUE(placed.bind().ok()) << c.name;
        write_inputs(placed.program, placed.model);
        ASSERT_EQ(placed.program.run().code, expected.code) << c.name;
        if (expected.ok()) {
          EXPECT_EQ(outputs_of(placed.program), outputs_of(host.program)) << c.name;
        }
        EXPECT_EQ(placed.fake.counts().broken, 0u) << c.name;
        EXPECT_EQ(placed.fake.counts().begins, placed.fake.counts().finishes);
        steps += placed.fake.counts().steps;
      }
    ++models;
  }
  EXPECT_GT(models, 20u);
  EXPECT_GT(steps, 100u);
}

TEST(places, a_run_of_fewer_rows_copies_these_rows_alone) {
  Placed placed(with_places(batched(), {1}));
  ASSERT_TRUE(placed.bind().ok());
  write_inputs(placed.program, placed.model);
  ASSERT_TRUE(placed.program.run().ok());
  const std::vector<std::byte> whole = outputs_of(placed.program);
  for (uint32_t rows = 1; rows < 4; ++rows) {
    write_inputs(placed.program, placed.model);
    const auto out = placed.program.bytes(placed.program.view().outputs[0]);
    std::fill(out.begin(), out.end(), std::byte{0x33});
    ASSERT_TRUE(placed.program.run_rows(rows).ok());
    EXPECT_EQ(std::memcmp(out.data(), whole.data(), rows * 12), 0) << rows;
    for (size_t i = rows * 12; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0x33}) << rows;
  }
}

TEST(places, a_guard_is_read_where_the_segment_has_it) {
  Placed host(guarded()), placed(with_places(guarded(), {1}));
  ASSERT_TRUE(host.bind().ok() && placed.bind().ok());
  for (const uint32_t go : {0u, 1u, 7u, 0u}) {
    std::vector<std::byte> results[2];
    for (Placed* p : {&host, &placed}) {
      write_inputs(p->program, p->model);
      std::memcpy(p->program.input(1).data(), &go, sizeof go);
      const auto out = p->program.bytes(p->program.view().outputs[0]);
      std::fill(out.begin(), out.end(), std::byte{0x11});
      ASSERT_TRUE(p->program.run().ok());
      results[p == &placed] = outputs_of(p->program);
    }
    EXPECT_EQ(results[0], results[1]) << go;
  }
}

// ---- Segments ----

TEST(places, consecutive_steps_of_one_port_are_one_segment) {
  const struct {
    std::vector<uint8_t> places;
    uint64_t segments, steps, in, out;
  } rows[] = {{{0, 0, 0, 0, 0, 0}, 0, 0, 0, 0},
              {{1, 1, 1, 1, 1, 1}, 1, 6, 1, 1},
              {{0, 1, 1, 0, 1, 0}, 2, 3, 2, 2},
              {{1, 0, 1, 0, 1, 0}, 3, 3, 3, 3},
              {{2, 1, 7, 1, 1, 2}, 2, 3, 2, 2}};
  for (const auto& row : rows) {
    Placed p(with_places(chain(6), row.places));
    ASSERT_TRUE(p.bind().ok());
    write_inputs(p.program, p.model);
    ASSERT_TRUE(p.program.run().ok());
    const fake::Counts& c = p.fake.counts();
    SCOPED_TRACE(testing::PrintToString(row.places));
    EXPECT_EQ(c.begins, row.segments);
    EXPECT_EQ(c.finishes, row.segments);
    EXPECT_EQ(c.steps, row.steps);
    EXPECT_EQ(c.copies_in, row.in) << "what a segment has made itself stays there";
    EXPECT_EQ(c.copies_out, row.out);
  }
}

TEST(places, ranges_of_steps_together_are_the_whole) {
  Placed whole(with_places(chain(6), {1, 1, 0, 1})), parts(with_places(chain(6), {1, 1, 0, 1}));
  ASSERT_TRUE(whole.bind().ok() && parts.bind().ok());
  write_inputs(whole.program, whole.model);
  write_inputs(parts.program, parts.model);
  ASSERT_TRUE(whole.program.run().ok());
  for (uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(parts.program.run(i, i + 1, 0).ok());
  EXPECT_EQ(outputs_of(whole.program), outputs_of(parts.program));
}

TEST(places, a_step_that_the_port_does_not_take_runs_on_the_host) {
  Draft over = chain(2);  // the second over the first's output
  over.tensors[2].offset = over.tensors[1].offset;
  for (const bool in_place : {true, false}) {
    Placed p(with_places(over, {1}), {.in_place = in_place}), host(over);
    ASSERT_TRUE(p.bind().ok() && host.bind().ok());
    write_inputs(p.program, p.model);
    write_inputs(host.program, host.model);
    ASSERT_TRUE(p.program.run().ok() && host.program.run().ok());
    EXPECT_EQ(p.fake.counts().steps, in_place ? 2u : 1u);
    EXPECT_EQ(outputs_of(p.program), outputs_of(host.program));
  }
}

// ---- Place 0 ----

// Runs a model bound to several ports, each with memory of its own.
std::vector<std::byte> run_on(const Draft& draft, const std::vector<fake::FakePort*>& fakes) {
  const Buffer file = pack(draft);
  Model model;
  EXPECT_TRUE(model.open(file.bytes()).ok());
  std::vector<const Port*> ports;
  for (fake::FakePort* const fake : fakes) ports.push_back(fake == nullptr ? nullptr : &fake->port());
  Places places(ports);
  Sizes sizes;
  EXPECT_TRUE(places.measure(model, 0, reference_kernels(), &sizes).ok());
  Blocks blocks(sizes, std::byte{0});
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (places.bytes(i) == 0) continue;
    EXPECT_TRUE(places.give(i, fakes[i]->allocate(size_t(places.bytes(i)))).ok());
  }
  Program program;
  EXPECT_TRUE(places.bind(&program, model, 0, reference_kernels(), blocks.memory).ok());
  write_inputs(program, model);
  EXPECT_TRUE(program.run().ok());
  const std::vector<std::byte> outputs = outputs_of(program);
  program.unbind();
  return outputs;
}

TEST(places, a_place_without_a_port_is_place_0) {
  const std::vector<std::byte> expected = run_on(chain(4), {});
  for (const bool named : {false, true}) {
    fake::FakePort first(reference_kernels(), {});
    std::vector<fake::FakePort*> ports = {&first};
    if (named) ports.push_back(nullptr);
    EXPECT_EQ(run_on(with_places(chain(4), {1, 0, 7, 1}), ports), expected);
    EXPECT_EQ(first.counts().steps, 4u);
    EXPECT_EQ(first.counts().begins, 1u) << "one segment";
  }
}

TEST(places, a_step_that_its_port_does_not_take_goes_to_that_of_place_0) {
  Draft over = chain(2);  // the second over the first's output
  over.tensors[2].offset = over.tensors[1].offset;
  const std::vector<std::byte> expected = run_on(over, {});
  fake::FakePort first(reference_kernels(), {.in_place = true}), second(reference_kernels(), {.in_place = false});
  EXPECT_EQ(run_on(with_places(over, {1}), {&first, &second}), expected);
  EXPECT_EQ(second.counts().steps, 1u);
  EXPECT_EQ(first.counts().steps, 1u);
}

}  // namespace
}  // namespace nacre::test

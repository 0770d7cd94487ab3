// Tests matrix products by cuBLASLt: the descriptors, the steps that become products, and the state after a refusal
// or failure. The numbers equal the host's to the byte, because the simulated library sums in the reference's order.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "tests/cases.h"
#include "tests/random_conv.h"
#include "tests/run/on_device.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

using cuda::Product;

// Builds y [rows, out] = x [rows, in] w [out, in]^T + bias.
Draft dense(int rows, int in, int out, ElementType type, bool bias, std::vector<uint32_t> clamp = {}) {
  Draft d;
  const uint32_t size = type == kF32 ? 4 : 2;
  const auto bytes = [&](int n) { return (uint32_t(n) * size + 15) / 16 * 16; };
  const uint32_t x = d.arena(type, {rows, in}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t w = d.arena(type, {out, in}, 0, 0, bytes(rows * in), kNoIndex, kInput);
  const uint32_t b = bias ? d.arena(type, {out}, 0, 0, bytes(rows * in) + bytes(out * in), kNoIndex, kInput) : kAbsent;
  const uint32_t last = bytes(rows * in) + bytes(out * in) + bytes(out);
  const uint32_t y = d.arena(type, {rows, out}, 0, 0, last, kNoIndex, kOutput);
  d.step(Op::kDense, clamp, {x, w, b}, {y});
  d.program(Entry::kInfer, "", {last + bytes(rows * out)});
  return d;
}

std::vector<std::byte> on_host(const Draft& draft) {
  Placed host(with_places(draft, {0}));
  EXPECT_TRUE(host.bind().ok());
  write_inputs(host.program, host.model);
  EXPECT_TRUE(host.program.run().ok());
  return outputs_of(host.program);
}

TEST(cuda_products, a_dense_step_is_the_libraries) {
  constexpr uint32_t kInfinity = 0x7F800000;
  for (const ElementType type : {kF32, kF16, kBf16})
    for (const bool bias : {false, true})
      for (const std::vector<uint32_t>& clamp : {std::vector<uint32_t>{}, {Clamp::kBounds, 0, kInfinity}}) {
        const Draft draft = dense(5, 24, 16, type, bias, clamp);
        OnDevice placed(with_places(draft, {1}), {}, true);
        ASSERT_TRUE(placed.bind().ok());
        write_inputs(placed.program, placed.model);
        ASSERT_TRUE(placed.program.run().ok()) << placed.device.sentence();
        EXPECT_EQ(outputs_of(placed.program), on_host(draft));
        EXPECT_EQ(placed.device.counts().products, 1u);
        EXPECT_EQ(placed.library.calls("cublasLtMatmul"), 1u);
        // One launch is the product. If there is a clamp, a second kernel makes y from the sums.
        EXPECT_EQ(placed.driver.calls("cuLaunchKernel"), clamp.empty() ? 1u : 2u);
      }
}

// Returns the model of one step, all of whose operands are in the arena.
Draft draft_of(const KernelEntry& entry, const Case& made, const std::vector<Array>& inputs, const Array& y) {
  Draft d;
  uint64_t at = 0;
  const auto add = [&](const Array& array, uint16_t flags) {
    const uint64_t offset = at;
    at += (array.bytes.size() + 15) / 16 * 16;
    return d.arena(array.element, array.dims, 0, 0, offset, kNoIndex, flags);
  };
  std::vector<uint32_t> in;
  for (const Array& x : inputs) in.push_back(x.present() ? add(x, kInput) : kAbsent);
  const uint32_t out = add(y, kOutput);
  d.step(entry.op, made.words, in, {out}, entry.rounding);
  d.program(Entry::kInfer, "", {at});
  return d;
}

// Returns whether the library must make the step: dense layers of codes, and dx of convolutions of one group.
bool must_be_a_product(const KernelEntry& entry, const std::vector<Array>& inputs, const Array& y) {
  const ElementType x = entry.operands[0].element, w = entry.operands[1].element;
  if (x == ElementType::kFloat64 || y.element == ElementType::kFloat64) return false;
  if (entry.op == Op::kConv2dGradientX) return y.dims[3] == inputs[1].dims[3];
  if (x != w) return false;
  if (entry.op != Op::kDense) return false;
  return (x == kI8 && y.element != ElementType::kInt16) ||
         (x == ElementType::kFloat8E4M3 && entry.operands[3].element == kF32);
}

// Makes a case of dx of a convolution with one group or two, or of codes with two scales.
Case gradient_x_case(const KernelEntry& entry, Random& random) {
  const RandomConv conv(random);
  Case made;
  made.words = conv.words_x;
  made.inputs = {{.element = entry.operands[0].element, .dims = conv.y_dims},
                 {.element = entry.operands[1].element, .dims = conv.w_dims}};
  for (int i = 2; i < input_count(entry); ++i) made.inputs.push_back({.element = kF32, .dims = {1}});
  return made;
}

// Tests random sizes, strides, dilations, paddings and transpositions of every entry whose steps can be products.
TEST(cuda_products, steps_of_any_size_give_the_references_bytes) {
  uint64_t seed = 0, products = 0, expected = 0;
  for (const auto& list : {reference::list(), reference::training_list()})
    for (const auto& [name, entry] : list) {
      const bool is_gradient = entry->op == Op::kConv2dGradientX;
      if (entry->op != Op::kDense && entry->op != Op::kConv2d && entry->op != Op::kBatchedMatmul && !is_gradient)
        continue;
      Random random(++seed);
      for (int i = 0; i < (is_gradient ? 20 : 4); ++i) {
        const Case made = is_gradient ? gradient_x_case(*entry, random) : random_case(*entry, random);
        const std::vector<Array> inputs = random_inputs(made, random);
        const Execution host = execute(*entry, made.words, inputs);
        ASSERT_TRUE(host.code == Code::kOk) << name << ", seed " << seed << ": " << text(made);
        OnDevice placed(with_places(draft_of(*entry, made, inputs, host.outputs[0]), {1}), {}, true);
        ASSERT_TRUE(placed.bind().ok()) << name << ", seed " << seed << ": " << text(made);
        uint32_t to = 0;
        for (const Array& x : inputs)
          if (x.present()) std::memcpy(placed.program.input(to++).data(), x.bytes.data(), x.bytes.size());
        ASSERT_TRUE(placed.program.run().ok()) << placed.device.sentence();
        EXPECT_EQ(
            std::memcmp(placed.program.output(0).data(), host.outputs[0].bytes.data(), host.outputs[0].bytes.size()), 0)
            << name << ", seed " << seed << ": " << text(made);
        products += placed.device.counts().products;
        if (!must_be_a_product(*entry, inputs, host.outputs[0])) continue;
        ++expected;
        EXPECT_EQ(placed.device.counts().products, 1u) << name << ", seed " << seed << ": " << text(made);
      }
    }
  EXPECT_GT(expected, 40u);
  EXPECT_GT(products, expected + 40);
}

// TF32 has 11 significant bits, so the inputs, which have 17, are rounded. This happens only while TF32 is asked for.
TEST(cuda_products, float32_is_multiplied_as_tf32_when_it_is_asked_for) {
  constexpr int kTerms = 24;
  const Draft draft = dense(5, kTerms, 16, kF32, false);
  OnDevice placed(with_places(draft, {1}), {}, true);
  ASSERT_TRUE(placed.bind().ok());
  const auto run = [&](bool tf32) {
    placed.device.multiply_as_tf32(tf32);
    write_inputs(placed.program, placed.model);
    EXPECT_TRUE(placed.program.run().ok()) << placed.device.sentence();
    return outputs_of(placed.program);
  };
  const std::vector<std::byte> exact = on_host(draft);
  EXPECT_EQ(run(false), exact);
  const std::vector<std::byte> rounded = run(true);
  EXPECT_NE(rounded, exact);
  for (size_t i = 0; i < exact.size(); i += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, &exact[i], sizeof a), std::memcpy(&b, &rounded[i], sizeof b);
    EXPECT_NEAR(a, b, 0x1p-10 * a);  // both factors by 2^-11; all terms are positive
  }
  EXPECT_EQ(run(false), exact);
}

TEST(cuda_products, a_library_that_does_not_open_is_done_without) {
  const Draft draft = with_places(dense(3, 8, 8, kF32, true), {1});
  fake::FakeDriver driver;
  fake::FakeCublasLt library(driver);
  library.fail("cublasLtCreate", 0, cuda::kLtNotInitialized);
  cuda::Device device;
  ASSERT_TRUE(device.open(&driver.driver(), kModules, 0, &library.library()));
  EXPECT_FALSE(device.has_products());
  EXPECT_STREQ(device.sentence(), "");
  device.close();
  EXPECT_EQ(driver.held(), 0u);
  EXPECT_EQ(library.held(), 0u);
}

TEST(cuda_products, what_the_library_has_no_algorithm_for_runs_on_the_ports_kernel) {
  const Draft draft = dense(4, 16, 8, kF16, true);
  OnDevice placed(with_places(draft, {1}), {}, true);
  ASSERT_TRUE(placed.bind().ok());
  placed.library.fail("cublasLtMatmulAlgoGetHeuristic", 0, cuda::kLtNotSupported);
  write_inputs(placed.program, placed.model);
  ASSERT_TRUE(placed.program.run().ok());
  EXPECT_EQ(outputs_of(placed.program), on_host(draft));
  EXPECT_EQ(placed.device.counts().products, 0u);
}

TEST(cuda_products, a_product_that_fails_is_one_status_and_the_next_run_is_whole) {
  const Draft draft = dense(4, 16, 8, kBf16, true);
  OnDevice placed(with_places(draft, {1}), {}, true);
  ASSERT_TRUE(placed.bind().ok());
  placed.library.fail("cublasLtMatmul", 0, 13);
  write_inputs(placed.program, placed.model);
  EXPECT_EQ(placed.program.run().code, Code::kPortFailed);
  EXPECT_STREQ(placed.device.sentence(), "cuda: cublasLtMatmul failed with CUDA error 13");
  write_inputs(placed.program, placed.model);
  ASSERT_TRUE(placed.program.run().ok());
  EXPECT_EQ(outputs_of(placed.program), on_host(draft));
  placed.program.unbind();
  placed.device.close();
  EXPECT_EQ(placed.driver.held(), 0u);
  EXPECT_EQ(placed.library.held(), 0u);
}

TEST(cuda_products, sizes_that_the_library_does_not_take_are_not_asked_for) {
  const auto of = [](cuda::LtType type, int m, int n, int k) {
    const auto sums = type == cuda::kLtI8 ? cuda::kLtI32 : cuda::kLtF32;
    return Product{.m = m,
                   .n = n,
                   .k = k,
                   .batch = 1,
                   .a = {nullptr, type, true, k, 0},
                   .b = {nullptr, type, false, k, 0},
                   .d = {nullptr, sums, false, m, 0},
                   .adds = false,
                   .tf32 = false,
                   .bias = nullptr,
                   .a_scale = nullptr,
                   .b_scale = nullptr};
  };
  EXPECT_TRUE(of(cuda::kLtI8, 8, 3, 12).fits());
  EXPECT_FALSE(of(cuda::kLtI8, 8, 3, 13).fits());
  EXPECT_FALSE(of(cuda::kLtI8, 7, 3, 12).fits());
  EXPECT_TRUE(of(cuda::kLtE4M3, 4, 17, 32).fits());  // the batch is free
  EXPECT_FALSE(of(cuda::kLtE4M3, 4, 17, 24).fits());
  EXPECT_FALSE(of(cuda::kLtE4M3, 3, 17, 32).fits());
  EXPECT_TRUE(of(cuda::kLtBf16, 3, 5, 7).fits());
  Product unaligned = of(cuda::kLtF32, 4, 4, 4);
  unaligned.b.at = reinterpret_cast<const void*>(uintptr_t{8});
  EXPECT_FALSE(unaligned.fits());
}

// NVIDIA's library accepts every descriptor and returns the values that were set. It needs no GPU for this.
TEST(cuda_products, nvidias_library_takes_every_descriptor) {
  if (sanitized()) GTEST_SKIP() << "half a gigabyte of a library that is not built for the sanitizers";
  const cuda::CublasLt* const library = cuda::load_cublaslt();
  if (library == nullptr) GTEST_SKIP() << "no libcublasLt.so.13 on this machine";
  void* loaded = nullptr;
  for (const char* path : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"})
    if (loaded == nullptr) loaded = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(loaded, nullptr);
  using Get = cuda::LtStatus (*)(const void*, cuda::LtEnum, void*, size_t, size_t*);
  const auto of_product = reinterpret_cast<Get>(dlsym(loaded, "cublasLtMatmulDescGetAttribute"));
  const auto of_matrix = reinterpret_cast<Get>(dlsym(loaded, "cublasLtMatrixLayoutGetAttribute"));
  const auto told = [](Get get, const void* at, cuda::LtEnum name, auto value) {
    size_t written = 0;
    EXPECT_EQ(get(at, name, &value, sizeof value, &written), cuda::kLtSuccess) << name;
    EXPECT_EQ(written, sizeof value) << name;
    return value;
  };
  constexpr cuda::LtEnum kType = 0, kRows = 2, kColumns = 3, kStep = 4, kCompute = 0, kScale = 1;
  const float bias[4] = {};
  size_t products = 0;
  for (const cuda::LtType type : {cuda::kLtF32, cuda::kLtF64, cuda::kLtF16, cuda::kLtBf16, cuda::kLtI8, cuda::kLtE4M3})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const int batch : {1, 3}) {
          const bool tf32 = type == cuda::kLtF32 && batch == 3;
          const bool integer = type == cuda::kLtI8, wide = type == cuda::kLtF64;
          const bool biased = batch == 1 && !integer && !wide;
          const bool float8 = type == cuda::kLtE4M3;
          const auto out = integer ? cuda::kLtI32 : float8 ? cuda::kLtF32 : type;
          const auto right = float8 && batch == 3 ? cuda::kLtE5M2 : type;
          const Product product = {.m = 48,
                                   .n = 5,
                                   .k = 32,
                                   .batch = batch,
                                   .a = {nullptr, type, ta, ta ? 32 : 48, 99},
                                   .b = {nullptr, right, tb, tb ? 5 : 32, 0},
                                   .d = {nullptr, out, false, 48, 240},
                                   .adds = false,
                                   .tf32 = tf32,
                                   .bias = biased ? bias : nullptr,
                                   .a_scale = float8 ? bias : nullptr,
                                   .b_scale = float8 ? bias + 1 : nullptr};
          cuda::DescribedProduct made;
          ASSERT_TRUE(made.describe(*library, product, cuda::Products::kWorkspace));
          EXPECT_EQ(told(of_product, &made.product, cuda::kLtTransposeA, int32_t{}), ta);
          EXPECT_EQ(told(of_product, &made.product, cuda::kLtTransposeB, int32_t{}), tb);
          EXPECT_EQ(told(of_product, &made.product, kCompute, cuda::LtEnum{}),
                    cuda::LtEnum(integer ? cuda::kLtCompute32I
                                 : tf32  ? cuda::kLtComputeTf32
                                 : wide  ? cuda::kLtCompute64F
                                         : cuda::kLtCompute32F));
          EXPECT_EQ(told(of_product, &made.product, kScale, cuda::LtEnum{}), cuda::LtEnum(integer ? cuda::kLtI32
                                                                                          : wide  ? cuda::kLtF64
                                                                                                  : cuda::kLtF32));
          EXPECT_EQ(told(of_product, &made.product, cuda::kLtEpilogue, cuda::LtEnum{}),
                    cuda::LtEnum(biased ? cuda::kLtEpilogueBias : cuda::kLtEpilogueNone));
          if (biased) {
            EXPECT_EQ(told(of_product, &made.product, cuda::kLtBiasPointer, static_cast<const void*>(nullptr)), bias);
            EXPECT_EQ(told(of_product, &made.product, cuda::kLtBiasType, cuda::LtEnum{}), cuda::LtEnum(out));
          }
          if (float8) {
            EXPECT_EQ(told(of_product, &made.product, cuda::kLtScaleA, static_cast<const void*>(nullptr)), bias);
            EXPECT_EQ(told(of_product, &made.product, cuda::kLtScaleB, static_cast<const void*>(nullptr)), bias + 1);
          }
          const auto matrix = [&](const cuda::LtMatrix& m, const Product::Matrix& is, uint64_t rows, uint64_t columns) {
            EXPECT_EQ(told(of_matrix, &m, kType, cuda::LtEnum{}), cuda::LtEnum(is.type));
            EXPECT_EQ(told(of_matrix, &m, kRows, uint64_t{}), rows);
            EXPECT_EQ(told(of_matrix, &m, kColumns, uint64_t{}), columns);
            EXPECT_EQ(told(of_matrix, &m, kStep, int64_t{}), is.step);
            EXPECT_EQ(told(of_matrix, &m, cuda::kLtBatchCount, int32_t{}), batch);
            EXPECT_EQ(told(of_matrix, &m, cuda::kLtBatchStride, int64_t{}), batch == 1 ? 0 : is.stride);
          };
          matrix(made.a, product.a, ta ? 32 : 48, ta ? 48 : 32);
          matrix(made.b, product.b, tb ? 5 : 32, tb ? 32 : 5);
          matrix(made.d, product.d, 48, 5);
          ++products;
        }
  EXPECT_EQ(products, 48u);
}

}  // namespace
}  // namespace nacre::test

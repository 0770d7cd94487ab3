// oneDNN in Debian's version (2.6). Primitives are made once, with weights in the order that the primitive asks for.
//
//   dense          matmul [rows, in] x [in, out]
//   convolutions   forward_inference; "nhwc" keeps activations channels last, "any" in oneDNN's own blocks, which whole
//                  networks of it have between their layers
//   int8           "s8": as ours; "u8": activations from 0 to 255, for which x86 has the instruction
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <unordered_map>

#include "bench/peers/layer_peer.h"

namespace nacre::bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Tag = memory::format_tag;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& stream() {
  static dnnl::stream stream(cpu());
  return stream;
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

// A primitive with its memory.
struct Held {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  memory y, plain_y;  // in the primitive's layout; float32 in Nacre's order
  float y_scale = 1;
};

template <class T>
memory filled(const memory::desc& desc, const std::vector<T>& values) {
  memory m(desc, cpu());
  std::copy(values.begin(), values.end(), static_cast<T*>(m.get_data_handle()));
  return m;
}

memory reordered(memory from, const memory::desc& to) {
  if (from.get_desc() == to) return from;
  memory m(to, cpu());
  dnnl::reorder(from, m).execute(stream(), from, m);
  stream().wait();
  return m;
}

struct Types {
  Type x, w, y;
  float x_scale = 1, y_scale = 1;
  std::vector<float> w_scales;
};

Types types_of(const LayerProblem& p, bool is_unsigned) {
  if (p.type == "float32") return {Type::f32, Type::f32, Type::f32, 1, 1, {}};
  if (p.type == "bfloat16") return {Type::bf16, Type::bf16, Type::bf16, 1, 1, {}};
  const float x_scale = scale_of(p.x) * (is_unsigned ? 127.0f / 255.0f : 1.0f);
  const float y_scale = scale_of(is_unsigned ? p.y_magnitudes : p.y);
  return {is_unsigned ? Type::u8 : Type::s8, Type::s8, Type::s8, x_scale, y_scale, channel_scales(p)};
}

// Returns attributes for y = scale_k (sum + bias_k), with the bias in units of the sum.
dnnl::primitive_attr attributes(const Types& t, int channel_axis) {
  dnnl::primitive_attr attr;
  if (t.w_scales.empty()) return attr;
  std::vector<float> scales;
  for (const float w : t.w_scales) scales.push_back(t.x_scale * w / t.y_scale);
  attr.set_output_scales(1 << channel_axis, scales);
  return attr;
}

std::vector<float> bias_of(const LayerProblem& p, const Types& t) {
  std::vector<float> bias = p.bias;
  for (size_t k = 0; k < bias.size() && !t.w_scales.empty(); ++k) bias[k] /= t.x_scale * t.w_scales[k];
  return bias;
}

// Returns x in its type and in plain order. For u8 it takes the magnitudes of x, because these codes are not below 0.
memory plain_x(const LayerProblem& p, const Types& t, const memory::dims& dims, Tag tag) {
  if (t.x == Type::u8) {
    std::vector<uint8_t> c;
    for (const float v : p.x) c.push_back(uint8_t(std::min(255.0f, std::nearbyint(std::abs(v) / t.x_scale))));
    return filled(memory::desc(dims, Type::u8, tag), c);
  }
  if (t.x == Type::s8) return filled(memory::desc(dims, Type::s8, tag), codes(p.x, t.x_scale));
  return reordered(filled(memory::desc(dims, Type::f32, tag), p.x), memory::desc(dims, t.x, tag));
}

memory plain_w(const LayerProblem& p, const Types& t, const memory::dims& dims, Tag tag) {
  if (t.w == Type::s8) return filled(memory::desc(dims, Type::s8, tag), weight_codes(p, t.w_scales));
  return reordered(filled(memory::desc(dims, Type::f32, tag), p.w), memory::desc(dims, t.w, tag));
}

PeerLayer peer(const std::string& name, std::shared_ptr<Held> held, bool is_unsigned) {
  PeerLayer layer{name, version(), {}, {}, is_unsigned};
  layer.run = [held] {
    held->primitive.execute(stream(), held->arguments);
    stream().wait();
  };
  layer.output = [held] {
    dnnl::reorder(held->y, held->plain_y).execute(stream(), held->y, held->plain_y);
    stream().wait();
    const auto* data = static_cast<const float*>(held->plain_y.get_data_handle());
    std::vector<float> values(data, data + held->plain_y.get_desc().get_size() / sizeof(float));
    for (float& v : values) v *= held->y_scale;
    return values;
  };
  return layer;
}

template <class Description>
void bind(Held& held, const Description& pd, const LayerProblem& p, const Types& t, memory x, memory w,
          const memory::desc& plain_y) {
  held.primitive = dnnl::primitive(pd);
  held.y = memory(pd.dst_desc(), cpu());
  held.plain_y = memory(plain_y, cpu());
  held.y_scale = t.y_scale;
  held.arguments = {{DNNL_ARG_SRC, reordered(std::move(x), pd.src_desc())},
                    {DNNL_ARG_WEIGHTS, reordered(std::move(w), pd.weights_desc())},
                    {DNNL_ARG_BIAS, filled(pd.bias_desc(), bias_of(p, t))},
                    {DNNL_ARG_DST, held.y}};
}

PeerLayer dense(const LayerProblem& p, const std::string& name, bool is_unsigned) {
  const Types t = types_of(p, is_unsigned);
  const int64_t in = p.dims("w")[1], out = p.dims("w")[0], rows = int64_t(p.x.size()) / in;
  const dnnl::matmul::desc desc(memory::desc({rows, in}, t.x, Tag::ab), memory::desc({in, out}, t.w, Tag::any),
                                memory::desc({1, out}, Type::f32, Tag::ab), memory::desc({rows, out}, t.y, Tag::ab));
  const dnnl::matmul::primitive_desc pd(desc, attributes(t, 1), cpu());
  auto held = std::make_shared<Held>();
  bind(*held, pd, p, t, plain_x(p, t, {rows, in}, Tag::ab), plain_w(p, t, {in, out}, Tag::ba),
       memory::desc({rows, out}, Type::f32, Tag::ab));
  return peer(name, held, is_unsigned);
}

PeerLayer convolution(const LayerProblem& p, const std::string& name, bool is_unsigned, Tag tag) {
  const Types t = types_of(p, is_unsigned);
  const std::vector<int64_t> x = p.dims("x"), w = p.dims("w");
  const int64_t kh = w[p.depthwise() ? 0 : 1], kw = w[p.depthwise() ? 1 : 2], k = p.channels();
  const memory::dims strides = {p.attribute("stride_h", 1), p.attribute("stride_w", 1)},
                     before = {p.attribute("pad_top", 0), p.attribute("pad_left", 0)},
                     after = {p.attribute("pad_bottom", 0), p.attribute("pad_right", 0)};
  const memory::dims from = {x[0], x[3], x[1], x[2]},
                     to = {x[0], k, (x[1] + before[0] + after[0] - kh) / strides[0] + 1,
                           (x[2] + before[1] + after[1] - kw) / strides[1] + 1},
                     kernel = p.depthwise() ? memory::dims{k, 1, 1, kh, kw} : memory::dims{k, x[3], kh, kw};
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                             memory::desc(from, t.x, tag), memory::desc(kernel, t.w, Tag::any),
                                             memory::desc({k}, Type::f32, Tag::a), memory::desc(to, t.y, tag), strides,
                                             before, after);
  const dnnl::convolution_forward::primitive_desc pd(desc, attributes(t, 1), cpu());
  auto held = std::make_shared<Held>();
  bind(*held, pd, p, t, plain_x(p, t, from, Tag::nhwc), plain_w(p, t, kernel, p.depthwise() ? Tag::hwigo : Tag::ohwi),
       memory::desc(to, Type::f32, Tag::nhwc));
  return peer(name, held, is_unsigned);
}

}  // namespace

std::string onednn_instructions() {
  const auto isa = unsigned(dnnl_get_effective_cpu_isa());
  const bool amx = (isa & unsigned(dnnl_cpu_isa_avx512_core_amx)) == unsigned(dnnl_cpu_isa_avx512_core_amx);
  return fmt::format("{:#x}, {} AMX", isa, amx ? "with" : "without");
}

std::vector<PeerLayer> onednn_layers(const LayerProblem& p) {
  std::vector<PeerLayer> layers;
  const auto add = [&](auto make) {
    try {
      layers.push_back(make());
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  };
  for (const bool is_unsigned : {false, true}) {
    if (is_unsigned && p.type != "int8") continue;
    const std::string end = p.type != "int8" ? "" : is_unsigned ? " u8" : " s8";
    if (p.shape.op == "dense") {
      add([&] { return dense(p, "onednn" + end, is_unsigned); });
    } else {
      add([&] { return convolution(p, "onednn nhwc" + end, is_unsigned, Tag::nhwc); });
      add([&] { return convolution(p, "onednn any" + end, is_unsigned, Tag::any); });
    }
  }
  return layers;
}

}  // namespace nacre::bench

"""Compares the int8 reference kernels and lookup tables with LiteRT's reference kernels, op by op, to the bit.

    int8_kernels.py KERNELS [cases] [seed]

KERNELS is the program of kernels.cc. Every case is a .tflite model of one operator, built here, run by ai-edge-litert with
its reference kernels (BUILTIN_REF, no delegates), and the same numbers given to the linked kernel. Prints, per op, cases
and codes compared and differing; exits 1 if a code differs.

Three of LiteRT's kernels are not TensorFlow Lite Micro's arithmetic, and are compared with what they do compute:
FULLY_CONNECTED rounds once (the other matmuls twice), LOGISTIC and TANH are tables of float32 functions.
"""
import subprocess
import sys

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

INT8, INT32 = s.TensorType.INT8, s.TensorType.INT32
ENGINE_TYPE = {np.dtype(np.int8): 5, np.dtype(np.int32): 8, np.dtype(np.float32): 1}


class Kernels:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *parts):
        self.process.stdin.write(' '.join(str(p) for p in parts) + '\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def multiplier(self, real):
        return [int(v) for v in self.ask('multiplier', float(real).hex())]

    def run(self, entry, words, *inputs):
        parts = ['run', entry, len(words), *[int(w) for w in words], len(inputs)]
        for x in inputs:
            parts += [0] if x is None else [ENGINE_TYPE[x.dtype], x.ndim, *x.shape, *(x.ravel().tolist())]
        answer = self.ask(*parts)
        if not answer or answer[0] in ('refused', 'no'):
            raise SystemExit(f'{entry} {words}: {" ".join(answer)}')
        rank = int(answer[0])
        shape = [int(v) for v in answer[1:1 + rank]]
        return np.array([float(v) for v in answer[1 + rank:]]).reshape(shape)


def tensor(shape, kind, scale=None, zero=0, buffer=0, axis=0):
    t = s.TensorT()
    t.shape, t.type, t.buffer, t.name = list(shape), kind, buffer, b't'
    if scale is not None:
        q = s.QuantizationParametersT()
        q.scale = [float(v) for v in np.atleast_1d(scale)]
        q.zeroPoint = [int(v) for v in np.atleast_1d(zero)]
        q.quantizedDimension = axis
        t.quantization = q
    return t


def written(code, options_type, options, inputs, output):
    """The bytes of a file. inputs: (tensor, constant array or None); output: a tensor."""
    model, graph, op, oc = s.ModelT(), s.SubGraphT(), s.OperatorT(), s.OperatorCodeT()
    model.version, model.description = 3, b''
    empty = s.BufferT()
    model.buffers = [empty]
    graph.tensors, graph.inputs = [], []
    for t, constant in inputs:
        if constant is not None:
            buffer = s.BufferT()
            buffer.data = np.frombuffer(constant.tobytes(), np.uint8)
            t.buffer = len(model.buffers)
            model.buffers.append(buffer)
        else:
            graph.inputs.append(len(graph.tensors))
        graph.tensors.append(t)
    graph.outputs = [len(graph.tensors)]
    graph.tensors.append(output)
    oc.builtinCode, oc.deprecatedBuiltinCode, oc.version = code, min(code, 127), 9
    op.opcodeIndex, op.inputs, op.outputs = 0, list(range(len(inputs))), graph.outputs
    op.builtinOptionsType, op.builtinOptions = options_type, options
    graph.operators, model.subgraphs, model.operatorCodes = [op], [graph], [oc]
    oc.version = VERSIONS.get(code, 2)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b'TFL3')
    return bytes(builder.Output())


def litert(code, options_type, options, inputs, output, fed):
    """fed: arrays for the inputs without constants."""
    file = written(code, options_type, options, inputs, output)
    interpreter = Interpreter(model_content=file, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), fed):
        interpreter.set_tensor(detail['index'], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]['index'])


B = s.BuiltinOperator
VERSIONS = {B.FULLY_CONNECTED: 4, B.CONV_2D: 3, B.DEPTHWISE_CONV_2D: 3, B.HARD_SWISH: 1, B.RESIZE_BILINEAR: 4}
ACTIVATIONS = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (-1, 1), 3: (0, 6)}  # NONE, RELU, RELU_N1_TO_1, RELU6


class Cases:
    def __init__(self, kernels, seed):
        self.k, self.r = kernels, np.random.default_rng(seed)

    def codes(self, *shape):
        return self.r.integers(-128, 128, shape, dtype=np.int8)

    def scale(self, low=-7, high=-3):
        return np.float32(2.0 ** self.r.uniform(low, high))

    def zero(self):
        return int(self.r.integers(-128, 128))

    def dims(self, rank, most=5):
        return [int(v) for v in self.r.integers(1, most + 1, rank)]

    def pairs(self, reals):
        return np.array([self.k.multiplier(v) for v in reals], np.int32)

    def clamp(self, activation, scale, zero):
        low, high = ACTIVATIONS[activation]
        code = lambda v: zero + int(np.trunc(np.float32(v) / scale + np.copysign(np.float32(0.5), np.float32(v))))
        return [1, -128 if np.isinf(low) else max(-128, code(low)), 127 if np.isinf(high) else min(127, code(high))]

    def binary(self, code, options_type, options, entry, multipliers, words):
        rank = int(self.r.integers(1, 5))
        a, b = self.dims(rank), None
        b = [d if self.r.random() < 0.7 else 1 for d in a]
        if self.r.random() < 0.5:
            a, b = b, a
        x, z = self.codes(*a), self.codes(*b)
        (sa, sb, sy), (za, zb, zy) = [self.scale() for _ in range(3)], [self.zero() for _ in range(3)]
        options.fusedActivationFunction = activation = int(self.r.integers(0, 4))
        if activation == 2 and code == B.SUB:
            options.fusedActivationFunction = activation = 0
        shape = np.broadcast_shapes(a, b)
        want = litert(code, options_type, options, [(tensor(a, INT8, sa, za), None), (tensor(b, INT8, sb, zb), None)],
                      tensor(shape, INT8, sy, zy), [x, z])
        got = self.k.run(entry, self.clamp(activation, sy, zy) + [za, zb, zy] + words, x, z, self.pairs(multipliers(sa, sb, sy)))
        return want, got

    def add(self):
        def reals(a, b, y):
            twice = 2 * max(float(a), float(b))
            return [float(a) / twice, float(b) / twice, twice / ((1 << 20) * float(y))]
        o = s.AddOptionsT()
        o.potScaleInt16 = False
        return self.binary(B.ADD, s.BuiltinOptions.AddOptions, o, 'kAddI8Double', reals, [20])

    def sub(self):
        def reals(a, b, y):
            twice = 2 * max(float(a), float(b))
            return [float(a) / twice, float(b) / twice, twice / ((1 << 20) * float(y))]
        o = s.SubOptionsT()
        o.potScaleInt16 = False
        return self.binary(B.SUB, s.BuiltinOptions.SubOptions, o, 'kSubI8Double', reals, [20])

    def mul(self):
        return self.binary(B.MUL, s.BuiltinOptions.MulOptions, s.MulOptionsT(), 'kMulI8Double',
                           lambda a, b, y: [float(a) * float(b) / float(y)], [])

    def softmax(self):
        shape = self.dims(int(self.r.integers(1, 5)), 3)
        shape[-1] = int(self.r.integers(1, 40))
        x, sx, o = self.codes(*shape), self.scale(-10, 0), s.SoftmaxOptionsT()
        o.beta = 1.0
        want = litert(B.SOFTMAX, s.BuiltinOptions.SoftmaxOptions, o, [(tensor(shape, INT8, sx, self.zero()), None)],
                      tensor(shape, INT8, 1 / 256, -128), [x])
        m, shift = self.k.multiplier(min(float(sx) * 2 ** 26, 2 ** 31 - 1))
        got = self.k.run('kSoftmaxI8Double', [len(shape) - 1, 0, m, shift, -int(np.floor(31 * 2.0 ** (26 - shift)))], x)
        return want, got

    def mean(self):
        shape = self.dims(4)
        axes = sorted(self.r.choice(4, int(self.r.integers(1, 4)), replace=False).tolist())
        same = self.r.random() < 0.3
        sx, zx = self.scale(), self.zero()
        sy, zy = (sx, zx) if same else (self.scale(), self.zero())
        o = s.ReducerOptionsT()
        o.keepDims = bool(self.r.integers(0, 2))
        x = self.codes(*shape)
        out = np.mean(x, tuple(axes), keepdims=o.keepDims).shape
        want = litert(B.MEAN, s.BuiltinOptions.ReducerOptions, o,
                      [(tensor(shape, INT8, sx, zx), None), (tensor([len(axes)], INT32), np.array(axes, np.int32))],
                      tensor(out, INT8, sy, zy), [x])
        requant = None if same else self.pairs([float(sx) / float(sy)])
        got = self.k.run('kMeanI8Double', [sum(1 << a for a in axes), int(o.keepDims), zx, zy], x, requant)
        return want, got

    def pool(self, code, entry):
        shape, o = [2, *self.dims(2, 9), 3], s.Pool2DOptionsT()
        o.filterHeight, o.filterWidth = [int(v) for v in self.r.integers(1, 5, 2)]
        o.strideH, o.strideW = [int(v) for v in self.r.integers(1, 4, 2)]
        shape[1], shape[2] = max(shape[1], o.filterHeight), max(shape[2], o.filterWidth)
        o.padding, o.fusedActivationFunction = int(self.r.integers(0, 2)), int(self.r.integers(0, 4))
        sizes, pads = self.window(shape, (o.filterHeight, o.filterWidth), (o.strideH, o.strideW), (1, 1), o.padding)
        x, sx, zx = self.codes(*shape), self.scale(), self.zero()
        want = litert(code, s.BuiltinOptions.Pool2DOptions, o, [(tensor(shape, INT8, sx, zx), None)],
                      tensor([shape[0], *sizes, shape[3]], INT8, sx, zx), [x])
        got = self.k.run(entry, [o.strideH - 1, o.strideW - 1, 0, 0, *pads, o.filterHeight - 1, o.filterWidth - 1, 0,
                                 *self.clamp(o.fusedActivationFunction, sx, zx)], x)
        return want, got

    def average_pool(self):
        return self.pool(B.AVERAGE_POOL_2D, 'kAveragePoolI8')

    def max_pool(self):
        return self.pool(B.MAX_POOL_2D, 'kMaxPoolI8')

    @staticmethod
    def window(shape, kernel, stride, dilation, valid):
        """Output sizes and the pads top, left, bottom, right of SAME (0) or VALID (1)."""
        sizes, before, after = [], [], []
        for size, k, st, d in zip(shape[1:3], kernel, stride, dilation):
            span = (k - 1) * d + 1
            sizes.append((size - span) // st + 1 if valid else -(-size // st))
            total = 0 if valid else max(0, (sizes[-1] - 1) * st + span - size)
            before.append(total // 2)
            after.append(total - total // 2)
        return sizes, before + after

    def matmul_tail(self, sx, out, axis_scale):
        sw = np.array([self.scale(-8, -5) for _ in range(out)], np.float32) if axis_scale else np.float32(self.scale(-8, -5))
        bias = self.r.integers(-3000, 3000, out, dtype=np.int32)
        return sw, bias, np.float32(np.float32(sx) * sw)

    def conv(self, depthwise):
        multiplier = int(self.r.integers(1, 4))
        in_c = int(self.r.integers(1, 5))
        out = in_c * multiplier if depthwise else int(self.r.integers(1, 6))
        kernel, stride, dilation = ([int(v) for v in self.r.integers(1, high, 2)] for high in (4, 4, 3))
        shape = [2, *[max(int(v), (k - 1) * d + 1) for v, k, d in zip(self.r.integers(1, 9, 2), kernel, dilation)], in_c]
        o = s.DepthwiseConv2DOptionsT() if depthwise else s.Conv2DOptionsT()
        (o.strideH, o.strideW), (o.dilationHFactor, o.dilationWFactor) = stride, dilation
        o.padding, o.fusedActivationFunction = int(self.r.integers(0, 2)), int(self.r.integers(0, 4))
        if depthwise:
            o.depthMultiplier = multiplier
        sizes, pads = self.window(shape, kernel, stride, dilation, o.padding)
        sx, sy, zx, zy = self.scale(), self.scale(-4, 0), self.zero(), self.zero()
        sw, bias, sb = self.matmul_tail(sx, out, True)
        w = self.r.integers(-127, 128, [1, *kernel, out] if depthwise else [out, *kernel, in_c], dtype=np.int8)
        axis = 3 if depthwise else 0
        x, zeros = self.codes(*shape), np.zeros(out, np.int64)
        want = litert(B.DEPTHWISE_CONV_2D if depthwise else B.CONV_2D,
                      s.BuiltinOptions.DepthwiseConv2DOptions if depthwise else s.BuiltinOptions.Conv2DOptions, o,
                      [(tensor(shape, INT8, sx, zx), None), (tensor(w.shape, INT8, sw, zeros, axis=axis), w),
                       (tensor([out], INT32, sb, zeros), bias)], tensor([2, *sizes, out], INT8, sy, zy), [x])
        requant = self.pairs([float(sx) * float(v) / float(sy) for v in sw])
        words = [v - 1 for v in stride] + [v - 1 for v in dilation] + pads + self.clamp(o.fusedActivationFunction, sy, zy)
        entry = 'kDepthwiseConv2dI8Double' if depthwise else 'kConv2dI8Double'
        return want, self.k.run(entry, words + [zx, zy, 0], x, w[0] if depthwise else w, bias, requant)

    def conv2d(self):
        return self.conv(False)

    def depthwise_conv2d(self):
        return self.conv(True)

    def dense(self):
        rows, width, out = self.dims(3, 20)
        o = s.FullyConnectedOptionsT()
        o.fusedActivationFunction = int(self.r.integers(0, 4))
        sx, sy, zx, zy = self.scale(), self.scale(-4, 0), self.zero(), self.zero()
        sw, bias, sb = self.matmul_tail(sx, out, False)
        w, x = self.r.integers(-127, 128, (out, width), dtype=np.int8), self.codes(rows, width)
        want = litert(B.FULLY_CONNECTED, s.BuiltinOptions.FullyConnectedOptions, o,
                      [(tensor([rows, width], INT8, sx, zx), None), (tensor(w.shape, INT8, sw, 0), w),
                       (tensor([out], INT32, sb, 0), bias)], tensor([rows, out], INT8, sy, zy), [x])
        requant = self.pairs([float(sx) * float(sw) / float(sy)])
        return want, self.k.run('kDenseI8Single', self.clamp(o.fusedActivationFunction, sy, zy) + [zx, zy], x, w, bias, requant)

    def requantize(self):
        shape = self.dims(3)
        sx, sy, zx, zy, x = self.scale(), self.scale(), self.zero(), self.zero(), self.codes(*shape)
        want = litert(B.QUANTIZE, s.BuiltinOptions.QuantizeOptions, s.QuantizeOptionsT(), [(tensor(shape, INT8, sx, zx), None)],
                      tensor(shape, INT8, sy, zy), [x])
        return want, self.k.run('kRequantizeI8Double', [zx, zy], x, self.pairs([float(sx) / float(sy)]))

    def relu(self):
        shape = self.dims(3)
        sx, sy, zx, zy, x = self.scale(), self.scale(), self.zero(), self.zero(), self.codes(*shape)
        want = litert(B.RELU, 0, None, [(tensor(shape, INT8, sx, zx), None)], tensor(shape, INT8, sy, zy), [x])
        return want, self.k.run('kClampI8Double', self.clamp(1, sy, zy) + [zx, zy], x, self.pairs([float(sx) / float(sy)]))

    def table(self, code, name, y, alpha=0.0, options_type=0, options=None):
        x = np.arange(-128, 128).astype(np.int8)
        sx, zx = self.scale(-9, -1), self.zero()
        sy, zy = y if y else (np.float32(sx * 2.0 ** self.r.uniform(-2, 2)), self.zero())
        want = litert(code, options_type, options, [(tensor([256], INT8, sx, zx), None)], tensor([256], INT8, sy, zy), [x])
        got = self.k.ask('table', name, float(sx).hex(), zx, float(sy).hex(), zy, float(alpha).hex())
        return want, np.array([int(v) for v in got])

    def sigmoid(self):
        return self.table(B.LOGISTIC, 'float_sigmoid', (np.float32(1 / 256), -128))

    def tanh(self):
        return self.table(B.TANH, 'float_tanh', (np.float32(1 / 128), 0))

    def hard_swish(self):
        return self.table(B.HARD_SWISH, 'hard_swish', None)

    def leaky_relu(self):
        o = s.LeakyReluOptionsT()
        o.alpha = float(np.float32(self.r.uniform(0.01, 1.5)))
        return self.table(B.LEAKY_RELU, 'leaky_relu', None, o.alpha, s.BuiltinOptions.LeakyReluOptions, o)


OPS = ['dense', 'conv2d', 'depthwise_conv2d', 'average_pool', 'max_pool', 'add', 'sub', 'mul', 'relu', 'softmax', 'mean',
       'requantize', 'sigmoid', 'tanh', 'hard_swish', 'leaky_relu']


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    failed = False
    for name in OPS:
        cases = Cases(Kernels(sys.argv[1]), seed)
        codes = differ = bad = inside = 0
        for i in range(count):
            want, got = getattr(cases, name)()
            if list(want.shape) != list(got.shape):
                raise SystemExit(f'{name} case {i}: shape {got.shape}, expected {want.shape}')
            wrong = int(np.count_nonzero(want != got))
            codes, differ, bad = codes + want.size, differ + wrong, bad + (wrong > 0)
            inside += int(np.count_nonzero((want > -128) & (want < 127)))
        print(f'{name:18} {count} cases, {codes} codes ({inside} not saturated), {differ} differ in {bad} cases', flush=True)
        failed |= differ > 0
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

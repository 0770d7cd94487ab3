"""Writes the network that tests/old_files/make.sh converts: python network.py FILE

1,100 numbers in the layers that policies and programs tell apart: convolution, batch norm, depthwise, sum, pool, dense, softmax.
"""
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
r = np.random.default_rng(7)
def c(name, *dims, scale=None):
    s = scale or (2.0 / max(1, int(np.prod(dims[1:])))) ** 0.5
    return nh.from_array((r.standard_normal(dims) * s).astype(np.float32), name)
init = [c('conv1.w', 8, 1, 3, 3), nh.from_array(np.full(8, 1, np.float32), 'bn1.scale'), c('bn1.bias', 8, scale=.1), c('bn1.mean', 8, scale=.1),
        nh.from_array(np.full(8, 1.5, np.float32), 'bn1.var'), c('depthwise.w', 8, 1, 3, 3), c('depthwise.b', 8, scale=.1),
        c('conv2.w', 8, 8, 1, 1), c('conv2.b', 8, scale=.1), c('fc.w', 10, 32), c('fc.b', 10, scale=.1)]
nodes = [h.make_node('Conv', ['pixels', 'conv1.w'], ['conv1'], name='conv1', pads=[1]*4, strides=[2, 2]),
         h.make_node('BatchNormalization', ['conv1', 'bn1.scale', 'bn1.bias', 'bn1.mean', 'bn1.var'], ['bn1'], name='bn1'),
         h.make_node('Relu', ['bn1'], ['relu1'], name='relu1'),
         h.make_node('Conv', ['relu1', 'depthwise.w', 'depthwise.b'], ['depthwise'], name='depthwise', pads=[1]*4, group=8),
         h.make_node('Relu', ['depthwise'], ['relu2'], name='relu2'),
         h.make_node('Conv', ['relu2', 'conv2.w', 'conv2.b'], ['conv2'], name='conv2'),
         h.make_node('Add', ['conv2', 'relu1'], ['sum'], name='sum'), h.make_node('Relu', ['sum'], ['relu3'], name='relu3'),
         h.make_node('MaxPool', ['relu3'], ['pool'], name='pool', kernel_shape=[2, 2], strides=[2, 2]),
         h.make_node('Flatten', ['pool'], ['flat'], name='flat'),
         h.make_node('Gemm', ['flat', 'fc.w', 'fc.b'], ['logits'], name='fc', transB=1), h.make_node('Softmax', ['logits'], ['probabilities'], name='softmax')]
g = h.make_graph(nodes, 'small', [h.make_tensor_value_info('pixels', T.FLOAT, ['N', 1, 8, 8])], [h.make_tensor_value_info('probabilities', T.FLOAT, ['N', 10])], init)
m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], producer_name='nacre tests'); m.ir_version = 8
onnx.checker.check_model(m); onnx.save(m, sys.argv[1])

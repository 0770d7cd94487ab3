"""Writes litert_numbers.json: networks of one operator on real and on whole numbers, and what LiteRT makes of them.

    litert_numbers.py [--output FILE]     writes the table (default: beside this script)
    litert_numbers.py --check             computes it again and compares with the committed one

Needs ai-edge-litert and numpy. The operators are those that Nacre's importer writes as several steps. The kernels are
LiteRT's own.
The table holds for each network:

    file      the .tflite, in hexadecimal
    inputs    numbers by the inputs' places, row by row; of bools 0 and 1
    output    numbers

tests/importers/tflite_numbers_test.cc reads it.
"""
import argparse
import json
import pathlib
import sys

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import int8_kernels
from int8_kernels import tensor, written
from litert_operators import NONE, B, options

F32, I32, I64, BOOL = s.TensorType.FLOAT32, s.TensorType.INT32, s.TensorType.INT64, s.TensorType.BOOL
VALID, SAME = s.Padding.VALID, s.Padding.SAME
OWN_KERNELS = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
numbers = np.random.default_rng(17)


def real(*shape):
    return tensor(shape, F32), numbers.standard_normal(shape).astype(np.float32)


def whole(high, *shape):
    return tensor(shape, I32), numbers.integers(0, high, shape).astype(np.int32)


def stored(*values, kind=I32, shape=None):
    array = np.array(values, {I32: np.int32, I64: np.int64, F32: np.float32}[kind])
    return tensor(shape or array.shape, kind), array.reshape(shape or array.shape)


class Given(tuple):
    """An input of the network: a tensor, and what it is given."""


def given(pair):
    return Given(pair)


def one(code, kind, inputs, shape, of=F32):
    return code, kind, inputs, tensor(shape, of)


def along(x, ids, axis, batch, shape):
    return one(B.GATHER, options("GatherOptions", axis=axis, batchDims=batch), [given(x), given(ids)], shape)


def reduced(code, axes, shape):
    x, array = whole(3, 3, 7, 2)
    return one(code, options("ReducerOptions"), [given((x, array + 1)), stored(*axes)], shape, I32)


def segments(code, *ids):
    return one(code, NONE, [given(real(5, 3)), stored(*ids), stored(4, shape=())], (4, 3))


def networks():
    volume = {"strideD": 2, "strideH": 1, "strideW": 1, "dilationDFactor": 1, "dilationHFactor": 1,
              "dilationWFactor": 2}
    spread = {"strideD": 2, "strideH": 2, "strideW": 1, "dilationDFactor": 1, "dilationHFactor": 1,
              "dilationWFactor": 1}
    pool = options("Pool2DOptions", strideH=2, strideW=1, filterHeight=2, filterWidth=3, padding=SAME)
    lrn = options("LocalResponseNormalizationOptions", radius=2, bias=1.0, alpha=0.3, beta=0.5)
    arg = options("ArgMaxOptions", outputType=I32)
    turn = options("ReverseSequenceOptions", seqDim=2, batchDim=0)
    index = options("StridedSliceOptions", beginMask=1, endMask=1, shrinkAxisMask=2)
    hot = options("OneHotOptions", axis=0)
    angles = (3.0, -0.25, 0.0, 7.0, -2.0, -1e-3, 0.5, 1e4, -6.0)
    return {
        "gather": along(real(4, 3), whole(4, 2, 3), 0, 0, (2, 3, 3)),
        "gather_axis": along(real(2, 4, 3), whole(4, 5), 1, 0, (2, 5, 3)),
        "gather_batches": along(real(2, 3, 4), whole(4, 2, 2), 2, 1, (2, 3, 2)),
        "gather_nd": one(B.GATHER_ND, NONE, [given(real(3, 4, 2)), given(whole(3, 5, 2))], (5, 2)),
        "scatter_nd": one(B.SCATTER_ND, NONE, [stored(4, 1, 4, shape=(3, 1)), given(real(3, 2)), stored(6, 2)], (6, 2)),
        "scatter_nd_at_run_time": one(B.SCATTER_ND, NONE, [
            given(whole(6, 3, 1)), given(real(3, 2)), stored(6, 2)], (6, 2)),
        "segment_sum": one(B.SEGMENT_SUM, NONE, [given(real(5, 2)), stored(0, 0, 1, 2, 2)], (3, 2)),
        "unsorted_segment_sum": segments(B.UNSORTED_SEGMENT_SUM, 0, 3, 1, 3, 0),
        "unsorted_segment_max": segments(B.UNSORTED_SEGMENT_MAX, 0, 3, 1, 3, 0),
        "unsorted_segment_prod": segments(B.UNSORTED_SEGMENT_PROD, 0, 3, 1, 3, 0),
        "sparse_to_dense": one(B.SPARSE_TO_DENSE, NONE, [
            stored(0, 1, 2, 0, shape=(2, 2)), stored(3, 2), given(real(2)), stored(0.5, kind=F32, shape=())], (3, 2)),
        "matrix_diag": one(B.MATRIX_DIAG, NONE, [given(real(2, 3))], (2, 3, 3)),
        "matrix_set_diag": one(B.MATRIX_SET_DIAG, NONE, [given(real(2, 4, 3)), given(real(2, 3))], (2, 4, 3)),
        "reverse_sequence": one(B.REVERSE_SEQUENCE, turn, [given(real(2, 3, 5)), given(whole(6, 2))], (2, 3, 5)),
        "local_response": one(B.LOCAL_RESPONSE_NORMALIZATION, lrn, [given(real(1, 2, 2, 7))], (1, 2, 2, 7)),
        "conv_3d": one(B.CONV_3D, options("Conv3DOptions", padding=SAME, **volume), [
            given(real(1, 5, 3, 4, 2)), real(3, 2, 2, 2, 3), real(3)], (1, 3, 3, 4, 3)),
        "conv_3d_transpose": one(B.CONV_3D_TRANSPOSE, options("Conv3DOptions", padding=SAME, **spread), [
            stored(1, 6, 4, 3, 2), real(3, 2, 3, 2, 4), given(real(1, 3, 2, 3, 4)), real(2)], (1, 6, 4, 3, 2)),
        "l2_pool": one(B.L2_POOL_2D, pool, [given(real(1, 5, 4, 2))], (1, 3, 4, 2)),
        "bucketize": one(B.BUCKETIZE, options("BucketizeOptions", boundaries=[-1.0, 0.0, 0.5]), [given(real(3, 4))],
                         (3, 4), I32),
        "one_hot_of_integers": one(B.ONE_HOT, hot, [
            given(whole(4, 3)), stored(4, shape=()), stored(7, shape=()), stored(-2, shape=())], (4, 3), I32),
        "sum_of_integers": reduced(B.SUM, (1,), (3, 2)),
        "product_of_integers": reduced(B.REDUCE_PROD, (0, 1), (2,)),
        "maximum_of_integers": reduced(B.REDUCE_MAX, (0, 2), (7,)),
        "mean_of_integers": reduced(B.MEAN, (1,), (3, 2)),
        "place_in_integers": one(B.ARG_MAX, arg, [given(whole(3, 4, 7)), stored(1, shape=())], (4,), I32),
        "pad_of_integers": one(B.PADV2, NONE, [
            given(whole(9, 2, 3)), stored(1, 0, 0, 2, shape=(2, 2)), stored(7, shape=())], (3, 5), I32),
        "abs_of_integers": one(B.ABS, NONE, [given(stored(3, -4, 0))], (3,), I32),
        "slice_at_run_time": one(B.SLICE, NONE, [
            given(real(2, 5, 3)), given(stored(0, 2, 0)), stored(2, 2, 3)], (2, 2, 3)),
        "index_at_run_time": one(B.STRIDED_SLICE, index, [
            given(real(2, 5, 3)), given(stored(0, -2)), given(stored(0, -1)), stored(1, 1)], (2, 3)),
        "update_at_run_time": one(B.DYNAMIC_UPDATE_SLICE, NONE, [
            given(real(1, 6, 2)), given(real(1, 2, 2)), given(stored(0, 5, 0))], (1, 6, 2)),
        "angle": one(B.ATAN2, NONE, [
            given(stored(*angles, kind=F32)), given(stored(*angles[::-1], kind=F32))], (9,)),
        "shift_of_integers": one(B.RIGHT_SHIFT, NONE, [given(stored(9, -9, 4)), stored(1, 1, 2)], (3,), I32),
    }


def composite():
    """x * x + x, by a graph that an operator names."""
    def graph(code, ids, y, tensors):
        made, op = s.SubGraphT(), s.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = code, ids, [y]
        made.tensors = [tensor((2, 3), F32) for _ in range(tensors)]
        made.inputs, made.outputs, made.operators = [0], [tensors - 1], [op]
        return made, op

    main, call = graph(0, [0], 1, 2)
    call.builtinOptions2Type = s.BuiltinOptions2.StableHLOCompositeOptions
    call.builtinOptions2 = s.StableHLOCompositeOptionsT()
    call.builtinOptions2.name, call.builtinOptions2.decompositionSubgraphIndex = b"test.formula", 1
    call.builtinOptions2.compositeAttributes = [0, 0, 1]  # none, as a flexbuffer
    inner, square = graph(1, [0, 0], 1, 3)
    square.builtinOptionsType, square.builtinOptions = options("MulOptions")
    add = s.OperatorT()
    add.opcodeIndex, add.inputs, add.outputs = 2, [1, 0], [2]
    add.builtinOptionsType, add.builtinOptions = options("AddOptions")
    inner.operators.append(add)
    model = s.ModelT()
    model.version, model.description, model.buffers = 3, b"", [s.BufferT()]
    model.subgraphs, model.operatorCodes = [main, inner], []
    for code in (B.STABLEHLO_COMPOSITE, B.MUL, B.ADD):
        kind = s.OperatorCodeT()
        kind.builtinCode, kind.deprecatedBuiltinCode, kind.version = code, min(code, 127), 1
        model.operatorCodes.append(kind)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(interpreter, fed):
    interpreter.allocate_tensors()
    for details, x in zip(interpreter.get_input_details(), fed):
        interpreter.set_tensor(details["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def row(file, fed, output):
    return {"file": file.hex(), "inputs": [x.ravel().tolist() for x in fed], "output": output.ravel().tolist()}


def answer(network):
    code, (kind, made), operands, y = network
    inputs = [(x[0], None if isinstance(x, Given) else x[1]) for x in operands]
    int8_kernels.VERSIONS[code] = 4 if code == B.GATHER else 2 if code == B.ABS else 1
    for version in range(int8_kernels.VERSIONS[code], 8):
        int8_kernels.VERSIONS[code] = version
        file = written(code, kind, made, inputs, y)
        try:
            interpreter = Interpreter(model_content=file, experimental_op_resolver_type=OWN_KERNELS)
            break
        except ValueError as error:  # the operator has another version
            if version == 7:
                raise error
    fed = [x[1] for x in operands if isinstance(x, Given)]
    return row(file, fed, run(interpreter, fed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = pathlib.Path(__file__).with_suffix(".json")
    parser.add_argument("--output", type=pathlib.Path, default=beside)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    made = {name: answer(network) for name, network in networks().items()}
    file, fed = composite(), [real(2, 3)[1]]
    interpreter = Interpreter(model_content=file, experimental_op_resolver_type=OWN_KERNELS)
    made["composite"] = row(file, fed, run(interpreter, fed))
    if arguments.check:
        return 0 if made == json.loads(beside.read_text()) else 1
    lines = [f'"{name}": {json.dumps(network)}' for name, network in made.items()]
    arguments.output.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

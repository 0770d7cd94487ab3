"""Networks of one Relu on 4 numbers, as .tflite and as .onnx. Their time is the cost of one call of an engine."""

import pathlib

NUMBERS = 4


def write_tflite(path):
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name):
        t = schema.TensorT()
        t.shape, t.type, t.buffer, t.name = [1, NUMBERS], schema.TensorType.FLOAT32, 0, name
        return t

    code = schema.OperatorCodeT()
    code.deprecatedBuiltinCode = code.builtinCode = schema.BuiltinOperator.RELU
    code.version = 1
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor("x"), tensor("y")], [0], [1], [operator]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.description, model.buffers = "one Relu", [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    pathlib.Path(path).write_bytes(bytes(builder.Output()))


def write_onnx(path):
    from onnx import TensorProto, helper, save

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, NUMBERS]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one Relu", values[:1], values[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

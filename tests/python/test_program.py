"""Running: arrays in and out, rows, streams, types, memory, threads."""

import threading
import weakref

import numpy as np
import pytest

import nacre


def test_any_number_of_rows_is_run_as_many_at_a_time_as_compiled(digits, model, images):
    one = nacre.Program(nacre.convert(digits), kernels="reference")(images[:20])
    eight = nacre.Program(model, kernels="reference")
    assert eight(images[:20]).tobytes() == one.tobytes()
    for rows in (1, 7, 8, 9, 16):
        assert eight(images[:rows]).tobytes() == one[:rows].tobytes()


def test_a_dict_gives_a_dict_and_a_list_is_an_array(model, images):
    program = nacre.Program(model)
    y = program(images[:8])
    assert set(program({"pixels": images[:8]})) == {"probabilities"}
    np.testing.assert_array_equal(program({"pixels": images[:8]})["probabilities"], y)
    np.testing.assert_array_equal(program(images[:8].tolist()), y)


def test_inputs_and_outputs_are_the_memory_of_the_program(model, images):
    program = nacre.Program(model)
    y = program(images[:8])
    program.input(0)[...] = images[:8]
    program.run()
    out = program.output("probabilities")
    np.testing.assert_array_equal(out, y)
    with pytest.raises(ValueError):
        out[0] = 1
    program.input("pixels")[:3] = images[:3]
    program.run(rows=3)
    np.testing.assert_array_equal(out[:3], y[:3])  # no copy: the same memory


def test_arrays_keep_the_program_alive_and_let_it_go(model):
    program = nacre.Program(model)
    native = weakref.ref(program)
    array = program.input(0)
    del program  # no cycle keeps it
    assert native() is None
    array[...] = 1
    assert array.sum() == array.size


@pytest.mark.parametrize("wrong", [lambda x: x.astype(np.float64), lambda x: x.astype(np.uint8), lambda x: x[:, 0] > 0])
def test_another_type_is_a_type_error(model, images, wrong):
    with pytest.raises(TypeError, match="pixels takes float32"):
        nacre.Program(model)(wrong(images[:8]))


@pytest.mark.parametrize("wrong", [(), ((2, 8, 8),), ((0, 1, 8, 8),), ((8, 1, 8, 9),), ((8, 1, 8, 8), (8, 1, 8, 8))])
def test_another_shape_is_a_value_error(model, wrong):
    with pytest.raises(ValueError):
        nacre.Program(model)(*(np.zeros(shape, np.float32) for shape in wrong))
    with pytest.raises(ValueError, match="unknown"):
        nacre.Program(model)({"pixel": np.zeros((8, 1, 8, 8), np.float32)})


def test_wrong_arguments(model):
    for wrong in ({"kernels": "fast"}, {"threads": 0}, {"threads": 300}, {"program": 7}):
        with pytest.raises(ValueError):
            nacre.Program(model, **wrong)
    with pytest.raises(TypeError):
        nacre.Program(b"bytes")
    with pytest.raises(nacre.Error, match="arm/m4"):
        nacre.Program(model, target="arm/m4")
    program = nacre.Program(model)
    for call in (lambda: program.input(1), lambda: program.output(-1)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(KeyError):
        program.input("x")
    with pytest.raises(ValueError):
        program.run(rows=9)


def test_threads_give_the_same_bytes_and_calls_wait_for_each_other(model, images):
    program = nacre.Program(model, threads=2, kernels="reference")
    wanted = {rows: program(images[:rows]).tobytes() for rows in (8, 24)}
    wrong = []

    def work(rows):
        for _ in range(50):
            if program(images[:rows]).tobytes() != wanted[rows]:
                wrong.append(rows)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in (8, 24, 8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_anything_with_dlpack_is_read(model, images):
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    program = nacre.Program(model)
    np.testing.assert_array_equal(program(Other(images[:8])), program(images[:8]))


def test_small_floats_are_those_of_ml_dtypes_or_codes(digits, images):
    model = nacre.convert(digits, policy="bfloat16", io_types="policy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = images[:1].astype(ml_dtypes.bfloat16)
    program = nacre.Program(model)
    assert program.input(0).dtype == x.dtype
    y = program(x)
    np.testing.assert_array_equal(y, program(x.view(np.uint16)))


def test_real_numbers_become_codes_where_that_is_wished(digits, images, labels):
    model = nacre.convert(digits, policy="int8/static_from_float32", calibrate=images[:64], io_types="policy")
    y = nacre.Program(model, quantize_inputs=True, dequantize_outputs=True)(images[:100])
    assert y.dtype == np.float32 and (y.argmax(1) == labels[:100]).mean() > 0.95 and abs(y.sum(1) - 1).max() < 0.1
    with pytest.raises(TypeError, match="int8"):
        nacre.Program(model)(images[:1])
    with pytest.raises(ValueError, match="dequantize_outputs"):
        nacre.Program(nacre.convert(digits), dequantize_outputs=True)
    small = nacre.Program(nacre.convert(digits, policy="bfloat16", io_types="policy"), quantize_inputs=True)
    assert small(images[:2]).shape == (2, 10)
    with pytest.raises(nacre.Error):
        nacre.Program(model, quantize_inputs=True)(np.full((1, 1, 8, 8), np.nan, np.float32))


def test_int8_networks_run_on_codes(tiny):
    program = nacre.Program(nacre.load(nacre.convert(tiny / "kws_ref_model.tflite").to_bytes()))
    info = program.inputs[0]
    x = np.random.default_rng(1).integers(-128, 127, (3, *info.shape[1:]), np.int8)
    y = program(x)
    assert y.dtype == np.int8 and y.shape == (3, 12)


def test_a_stream_goes_on_until_the_next_begins(tiny):
    model = nacre.convert(tiny.parent / "silero" / "silero_vad_openvino_16k.onnx", state={"state": "stateN"})
    x = np.random.default_rng(1).standard_normal((3, 576)).astype(np.float32)
    program = nacre.Program(model)
    first, second = program(x), program(x)
    assert (first != second).any()
    program.start()
    assert program(x).tobytes() == first.tobytes()
    program.start()
    assert np.concatenate([program(row[None]) for row in x]).tobytes() == first.tobytes()


def test_tensors_of_torch_and_jax_are_read(digits, model, images):
    torch = pytest.importorskip("torch")
    wanted = nacre.Program(model)(images[:8])
    np.testing.assert_array_equal(nacre.Program(model)(torch.from_numpy(images[:8])), wanted)
    small = nacre.Program(nacre.convert(digits, policy="bfloat16", io_types="policy"))
    x = torch.from_numpy(images[:1]).to(torch.bfloat16)
    np.testing.assert_array_equal(small(x), small(x.view(torch.int16).numpy().view(np.uint16)))
    jax = pytest.importorskip("jax")
    np.testing.assert_array_equal(nacre.Program(model)(jax.numpy.asarray(images[:8])), wanted)

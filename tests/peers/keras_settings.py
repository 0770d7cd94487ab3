"""Writes keras_settings.json: classes of Keras with each argument of the constructor (but SKIPPED) off its default, one
at a time, and whether Keras computes something else by it.

    keras_settings.py            writes the table beside this script
    keras_settings.py --check    computes it again and compares with the committed one

Needs keras_requirements.txt. Each class of keras.layers, losses, optimizers, schedules, regularizers and constraints has a
small model. A case says what the argument changes in the serialized configuration (`set`), in the variables of the layer
(`variables`, where their shapes change), in what inference gives (`infers`) and in a step of training (`trains`: the loss or
the weights behind it). Weights, samples and seeds are the same with the argument and without it.
"""

import argparse
import inspect
import json
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers as L  # noqa: E402

IMAGE, SEQUENCE, FLAT, VOLUME = (6, 6, 4), (5, 4), (6,), (4, 4, 4, 2)
# Values of an argument, off the default of every class that has it. A class may have its own in VALUES_OF.
VALUES = {
    "activity_regularizer": [keras.regularizers.L2(0.1)], "trainable": [False], "autocast": [False],
    "activation": ["relu"], "recurrent_activation": ["tanh"], "use_bias": [False], "strides": [2], "padding": ["same"],
    "data_format": ["channels_first"], "dilation_rate": [2], "groups": [2], "filters": [6], "units": [5], "kernel_size": [2],
    "depth_multiplier": [2], "output_padding": [1], "seed": [7], "rate": [0.3], "noise_shape": [(None, 1)],
    "unit_forget_bias": [False], "dropout": [0.3], "recurrent_dropout": [0.3], "return_sequences": [True],
    "return_state": [True], "go_backwards": [True], "stateful": [True], "unroll": [True], "reset_after": [False],
    "use_cudnn": [True], "zero_output_for_mask": [True], "axis": [1], "momentum": [0.7], "epsilon": [0.1], "center": [False],
    "scale": [False], "renorm": [True], "renorm_clipping": [{"rmax": 2.0}], "renorm_momentum": [0.5], "synchronized": [True],
    "keepdims": [True], "lora_rank": [2], "lora_alpha": [3.0], "quantization_config": [], "gptq_unpacked_column_size": [8],
    "mask_zero": [True], "input_dim": [13], "output_dim": [5], "tie_weights": [False], "reverse_dtype": ["float16"],
    "logit_soft_cap": [2.0], "use_scale": [True], "score_mode": ["concat"], "num_heads": [3], "key_dim": [5], "value_dim": [3],
    "output_shape": [5], "attention_axes": [(1,)], "sliding_window": [2], "flash_attention": [False], "use_gate": [True],
    "head_dim": [5], "num_query_heads": [2], "num_key_value_heads": [1], "pool_size": [3], "output_size": [3],
    "negative_slope": [0.2], "max_value": [0.5], "threshold": [0.2], "alpha": [0.6], "shared_axes": [[1]], "size": [3],
    "interpolation": ["bilinear"], "cropping": [2], "height": [4], "width": [4], "crop_to_aspect_ratio": [True],
    "pad_to_aspect_ratio": [True], "fill_mode": ["reflect"], "fill_value": [0.5], "antialias": [True], "merge_mode": ["sum"],
    "weights": [], "backward_layer": [lambda: L.LSTM(3, go_backwards=True, recurrent_activation="tanh")], "normalize": [True],
    "axes": [2], "mask_value": [1.0], "n": [3], "dims": [(2, 1)], "target_shape": [(3, 2)], "stddev": [0.5], "l1": [0.1],
    "l2": [0.1], "mean": [0.5], "variance": [2.0], "invert": [True], "offset": [0.5], "num_tokens": [9],
    "output_mode": ["count"], "sparse": [True], "bin_boundaries": [[-0.4, 0.3]], "num_bins": [4], "mode": ["magnitude"],
    "frame_length": [16], "frame_step": [5], "fft_length": [32], "window": ["hamming"], "periodic": [True],
    "scaling": ["spectrum"], "expand_dims": [True], "sequence_stride": [16], "sequence_length": [40], "sampling_rate": [4000],
    "num_mel_bins": [5], "min_freq": [200.0], "max_freq": [1000.0], "power_to_db": [False], "top_db": [10.0], "mag_exp": [1.0],
    "min_power": [1e-3], "ref_power": [2.0], "power_iterations": [2], "clip_limit": [1.0], "tile_grid_size": [(2, 2)],
    "value_range": [(0, 1)], "factor": [0.4], "bins": [16], "num_chains": [2], "chain_depth": [2], "all_ops": [False],
    "num_ops": [1], "brightness_factor": [0.2], "contrast_factor": [0.2], "saturation_factor": [0.2], "hue_factor": [0.2],
    "sigma": [2.0], "x_factor": [0.3], "y_factor": [0.3], "height_factor": [0.3], "width_factor": [0.3],
    "addition_factor": [0.3], "threshold_factor": [0.3], "optional": [True], "ragged": [], "batch_size": [], "input_tensor": [],
    "batch_shape": [], "shape": [], "max_tokens": [9], "num_oov_indices": [2], "mask_token": [0], "oov_token": [-2],
    "vocabulary": [[3, 4, 8]], "vocabulary_dtype": ["int32"], "idf_weights": [], "pad_to_max_tokens": [True],
    "oov_method": ["farmhash"], "salt": [3], "equation": ["abc,dc->abd"], "bias_axes": [None], "lora": [],
    # losses
    "from_logits": [True], "label_smoothing": [0.1], "reduction": ["sum", "mean", "mean_with_sample_weight"],
    "ignore_class": [1], "delta": [0.3], "apply_class_balancing": [True], "gamma": [3.0], "q": [0.8], "beta": [0.7],
    "margin": [0.2], "remove_diagonal": [False],
    # optimizers
    "learning_rate": [0.05], "weight_decay": [0.1], "clipnorm": [0.01], "clipvalue": [0.01], "global_clipnorm": [0.01],
    "use_ema": [True], "ema_momentum": [0.5], "ema_overwrite_frequency": [2], "loss_scale_factor": [8.0],
    "gradient_accumulation_steps": [2], "nesterov": [True], "beta_1": [0.5], "beta_2": [0.5], "amsgrad": [True],
    "rho": [0.5], "centered": [True], "initial_accumulator_value": [0.7], "initial_scale": [1024.0],
    "dynamic_growth_steps": [2], "beta_2_decay": [-0.5], "epsilon_1": [1e-2], "epsilon_2": [1e-2], "clip_threshold": [0.5],
    "relative_step": [False], "learning_rate_power": [-0.3], "l1_regularization_strength": [0.1],
    "l2_regularization_strength": [0.1], "l2_shrinkage_regularization_strength": [0.1], "warmup_steps": [3],
    "inner_optimizer": [], "adam_beta_1": [0.5], "adam_beta_2": [0.5], "adam_weight_decay": [0.1], "exclude_layers": [["dense"]],
    "exclude_embeddings": [False], "muon_a": [3.0], "muon_b": [-4.0], "muon_c": [2.5], "adam_lr_ratio": [0.5],
    "ns_steps": [3], "rms_rate": [0.5],
    # schedules
    "initial_learning_rate": [0.2], "decay_steps": [3], "decay_rate": [0.3], "staircase": [True], "power": [2.0],
    "cycle": [True], "end_learning_rate": [0.01], "first_decay_steps": [3], "t_mul": [1.0], "m_mul": [0.5],
    "warmup_target": [0.3], "boundaries": [[1, 3]], "values": [[0.3, 0.2]],
    # regularizers and constraints
    "min_value": [0.5], "rate_": [0.5],
}
VALUES_OF = {
    ("ReLU", "negative_slope"): [0.1], ("Activation", "activation"): ["relu", "softmax"], ("Softmax", "axis"): [1],
    ("ELU", "alpha"): [0.5], ("EinsumDense", "output_shape"): [(None, 5)], ("EinsumDense", "lora_rank"): [],
    ("Embedding", "lora_rank"): [], ("Dense", "lora_rank"): [], ("Conv1D", "padding"): ["same", "causal"],
    ("Attention", "dropout"): [0.3], ("PReLU", "shared_axes"): [[1]], ("Dropout", "noise_shape"): [(None, 1)],
    ("AlphaDropout", "noise_shape"): [(None, 1)], ("UpSampling2D", "interpolation"): ["bilinear", "bicubic"],
    ("Resizing", "interpolation"): ["nearest", "bicubic"], ("BatchNormalization", "scale"): [False],
    ("Rescaling", "scale"): [2.0], ("STFTSpectrogram", "padding"): ["same"], ("CategoryEncoding", "output_mode"): ["count",
    "one_hot"], ("Discretization", "output_mode"): ["one_hot"], ("IntegerLookup", "output_mode"): ["one_hot"],
    ("Discretization", "epsilon"): [0.1], ("LSTM", "use_cudnn"): [False], ("GRU", "use_cudnn"): [False],
    ("Concatenate", "axis"): [1], ("ZeroPadding1D", "padding"): [2], ("ZeroPadding2D", "padding"): [2],
    ("ZeroPadding3D", "padding"): [2], ("Cropping2D", "cropping"): [1], ("Cropping3D", "cropping"): [((0, 1),) * 3],
    ("Normalization", "axis"): [None], ("GroupNormalization", "axis"): [1], ("RMSNormalization", "axis"): [1],
    ("UnitNormalization", "axis"): [1], ("LayerNormalization", "axis"): [1], ("Conv1DTranspose", "output_padding"): [1],
    ("GlobalMaxPool1D", "data_format"): ["channels_first"], ("RandomPosterization", "factor"): [2],
    ("RandomErasing", "scale"): [(0.1, 0.2)], ("RandomElasticTransform", "scale"): [0.5], ("RandomPerspective", "scale"): [0.5],
    ("RandomFlip", "mode"): ["horizontal"], ("AugMix", "interpolation"): ["nearest"], ("RandAugment", "interpolation"): ["nearest"],
    ("RandomRotation", "interpolation"): ["nearest"], ("RandomZoom", "interpolation"): ["nearest"],
    ("RandomTranslation", "interpolation"): ["nearest"], ("RandomShear", "interpolation"): ["nearest"],
    ("RandomPerspective", "interpolation"): ["nearest"], ("RandomElasticTransform", "interpolation"): ["nearest"],
    ("RandomRotation", "fill_mode"): ["constant"], ("RandomZoom", "fill_mode"): ["constant"],
    ("RandomTranslation", "fill_mode"): ["constant"], ("RandomShear", "fill_mode"): ["constant"],
    ("RandomElasticTransform", "fill_mode"): ["constant"], ("Solarization", "value_range"): [(0, 1)],
    ("RandomGaussianBlur", "kernel_size"): [5], ("Bidirectional", "merge_mode"): ["sum", None],
    ("MaxNorm", "max_value"): [0.3], ("MinMaxNorm", "max_value"): [0.4], ("MinMaxNorm", "rate"): [0.5],
    ("MaxNorm", "axis"): [1], ("MinMaxNorm", "axis"): [1], ("UnitNorm", "axis"): [1],
    ("OrthogonalRegularizer", "mode"): ["columns"], ("CosineDecay", "alpha"): [0.2], ("CosineDecay", "warmup_steps"): [],
    ("CategoricalFocalCrossentropy", "alpha"): [0.5], ("Tversky", "alpha"): [0.8], ("RMSprop", "momentum"): [0.5],
    ("CosineDecayRestarts", "alpha"): [0.2], ("BinaryFocalCrossentropy", "alpha"): [0.5], ("Reshape", "target_shape"): [(2, 3)],
    ("Ftrl", "beta"): [0.3], ("SpatialDropout2D", "data_format"): ["channels_first"], ("MultiOptimizer", "optimizer_map"): [],
    ("Conv1DTranspose", "strides"): [1], ("Conv2DTranspose", "strides"): [1], ("Conv3DTranspose", "strides"): [1],
    ("Conv1D", "kernel_size"): [2], ("Muon", "nesterov"): [False], ("Muon", "momentum"): [0.5], ("Dice", "axis"): [0], ("Tversky", "axis"): [0],
    ("CosineSimilarity", "axis"): [0], ("Adam", "epsilon"): [0.1, 1e-3], ("ConvLSTM1D", "dilation_rate"): [2],
}
# Arguments that a class requires, and the shapes that it reads: {class: (arguments, shapes, type)}.
SHAPES = {"1D": SEQUENCE, "2D": IMAGE, "3D": VOLUME}
RECURRENT = dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), ({"units": 3}, [SEQUENCE], "float32"))
PICTURES = {
    "AugMix": {}, "CutMix": {}, "MixUp": {}, "RandAugment": {}, "Equalization": {}, "RandomBrightness": {"factor": 0.2},
    "RandomColorDegeneration": {"factor": 0.5}, "RandomColorJitter": {}, "RandomContrast": {"factor": 0.2},
    "RandomCrop": {"height": 6, "width": 6}, "RandomElasticTransform": {}, "RandomErasing": {}, "RandomFlip": {},
    "RandomGaussianBlur": {}, "RandomGrayscale": {}, "RandomHue": {"factor": 0.2}, "RandomInvert": {},
    "RandomPerspective": {}, "RandomPosterization": {"factor": 4}, "RandomRotation": {"factor": 0.2},
    "RandomSaturation": {"factor": 0.2}, "RandomSharpness": {"factor": 0.2}, "RandomShear": {"x_factor": 0.2},
    "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2}, "RandomZoom": {"height_factor": 0.2},
    "Solarization": {}, "AutoContrast": {}, "ContrastLimitedAdaptiveHistogramEqualization": {},
    "Resizing": {"height": 5, "width": 5}, "CenterCrop": {"height": 3, "width": 3}}
MADE_OF = {
    **RECURRENT,
    "Activation": ({"activation": "tanh"}, [FLAT], "float32"),
    "Dense": ({"units": 3}, [FLAT], "float32"),
    "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (None, 3)}, [SEQUENCE], "float32"),
    "Embedding": ({"input_dim": 11, "output_dim": 4}, [(5,)], "int32"),
    "ReversibleEmbedding": ({"input_dim": 11, "output_dim": 4}, [(5,)], "int32"),
    "RNN": ({"cell": lambda: L.LSTMCell(3)}, [SEQUENCE], "float32"),
    "StackedRNNCells": None,
    "Bidirectional": ({"layer": lambda: L.LSTM(3)}, [SEQUENCE], "float32"),
    "TimeDistributed": ({"layer": lambda: L.Dense(3)}, [SEQUENCE], "float32"),
    "SpectralNormalization": ({"layer": lambda: L.Dense(3)}, [FLAT], "float32"),
    "MultiHeadAttention": ({"num_heads": 2, "key_dim": 4}, [SEQUENCE, SEQUENCE], "float32"),
    "GroupedQueryAttention": ({"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 2}, [SEQUENCE, SEQUENCE], "float32"),
    "Attention": ({}, [SEQUENCE, SEQUENCE], "float32"),
    "AdditiveAttention": ({}, [SEQUENCE, SEQUENCE], "float32"),
    **{k: (o, [(6, 6, 3)], "float32") for k, o in PICTURES.items()},
    **{k: ({}, [SEQUENCE, SEQUENCE], "float32") for k in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum",
                                                          "Concatenate")},
    "Dot": ({"axes": 1}, [SEQUENCE, SEQUENCE], "float32"),
    "Permute": ({"dims": (1, 2)}, [SEQUENCE], "float32"),
    "Reshape": ({"target_shape": (6, 1)}, [FLAT], "float32"),
    "RepeatVector": ({"n": 2}, [FLAT], "float32"),
    "Rescaling": ({"scale": 0.5}, [FLAT], "float32"),
    "Masking": ({}, [SEQUENCE], "float32"),
    "Normalization": ({"mean": 0.2, "variance": 1.5}, [FLAT], "float32"),
    "GroupNormalization": ({"groups": 1}, [SEQUENCE], "float32"),
    "CategoryEncoding": ({"num_tokens": 7}, [(5,)], "int32"),
    "Discretization": ({"bin_boundaries": [-0.5, 0.0, 0.7]}, [FLAT], "float32"),
    "IntegerLookup": ({"vocabulary": [2, 5, 9]}, [(5,)], "int64"),
    "STFTSpectrogram": ({"frame_length": 20, "frame_step": 10, "fft_length": 32}, [(80, 2)], "float32"),
    "MelSpectrogram": ({"fft_length": 64, "sequence_stride": 32, "sampling_rate": 8000, "num_mel_bins": 8}, [(300,)],
                       "float32"),
    "Dropout": ({"rate": 0.5}, [FLAT], "float32"), "AlphaDropout": ({"rate": 0.5}, [FLAT], "float32"),
    "GaussianDropout": ({"rate": 0.5}, [FLAT], "float32"), "GaussianNoise": ({"stddev": 0.2}, [FLAT], "float32"),
    **{f"SpatialDropout{k}": ({"rate": 0.5}, [s], "float32") for k, s in SHAPES.items()},
    **{f"{c}Conv{k}": ({"kernel_size": 3} | ({"filters": 4} if c != "Depthwise" else {}), [SHAPES[k]], "float32")
       for c in ("", "Depthwise", "Separable") for k in SHAPES},
    **{f"Conv{k}Transpose": ({"filters": 4, "kernel_size": 3, "strides": 2}, [SHAPES[k]], "float32") for k in SHAPES},
    **{f"ConvLSTM{k}": ({"filters": 2, "kernel_size": 2}, [(3, *SHAPES[k])], "float32") for k in SHAPES},
    **{f"{c}Pooling{k}": ({"pool_size": 2}, [SHAPES[k]], "float32") for c in ("Max", "Average") for k in SHAPES},
    **{f"Adaptive{c}Pooling{k}": ({"output_size": 2}, [SHAPES[k]], "float32") for c in ("Max", "Average") for k in SHAPES},
    **{f"Global{c}Pooling{k}": ({}, [SHAPES[k]], "float32") for c in ("Max", "Average") for k in SHAPES},
    **{f"{c}{k}": ({}, [SHAPES[k]], "float32") for c in ("ZeroPadding", "Cropping", "UpSampling") for k in SHAPES},
    **{k: ({}, [SEQUENCE], "float32") for k in ("BatchNormalization", "LayerNormalization", "RMSNormalization",
                                               "UnitNormalization", "PReLU", "Softmax", "Flatten")},
}
NOT_MADE = {
    **dict.fromkeys(("Layer", "Wrapper"), "a class that others are made of"),
    **dict.fromkeys(("Hashing", "HashedCrossing", "StringLookup", "TextVectorization"), "texts and hashes: no converter"),
    **dict.fromkeys(("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper", "Lambda"), "holds code"),
    **dict.fromkeys(("LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells"), "a cell: inside of RNN"),
    "MaxNumBoundingBoxes": "changes labels", "Pipeline": "has no argument but layers",
}
SKIPPED = {"name", "dtype", "kwargs", "args", "initializer", "layer", "cell", "layers", "cells"}


def classes(module, base):
    found = {}
    for name in dir(module):
        c = getattr(module, name)
        if inspect.isclass(c) and issubclass(c, base) and c is not base:
            found[c.__name__] = c
    return dict(sorted(found.items()))


def made(arguments):
    ready = (keras.regularizers.Regularizer, keras.constraints.Constraint, L.Layer)
    return {k: v() if callable(v) and not inspect.isclass(v) and not isinstance(v, ready) else v for k, v in arguments.items()}


def arguments_of(c):
    """Returns the arguments of the constructor. A layer also has those that its base class L.Layer takes."""
    own = [p.name for p in inspect.signature(c.__init__).parameters.values()
           if p.name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return own + ([a for a in ("activity_regularizer",) if a not in own] if issubclass(c, L.Layer) else [])


def values_of(c, argument):
    if argument in SKIPPED or argument.endswith("_initializer"):
        return []
    if argument.endswith("_regularizer"):
        return VALUES["activity_regularizer"] if argument.startswith("activity") else [
            keras.regularizers.L2(0.1), keras.regularizers.L1(0.1)]
    if argument.endswith("_constraint"):
        return [keras.constraints.MaxNorm(0.3)]
    given = VALUES_OF.get((c.__name__, argument), VALUES.get(argument))
    if given is None:
        raise SystemExit(f"keras_settings: {c.__name__}({argument}) has no value off its default: add one")
    return given


def rounded(x):
    return np.asarray(keras.ops.convert_to_numpy(x), np.float64)


def random(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype.startswith("int"):
        return rng.integers(1, 7, (4, *shape)).astype(dtype)
    return rng.normal(size=(4, *shape)).astype(dtype)


def model_of(layer, shapes, dtype):
    inputs = [keras.Input(s, name=f"in{i}", dtype=dtype) for i, s in enumerate(shapes)]
    apart = len(inputs) == 1 or type(layer).__name__ in ("MultiHeadAttention", "GroupedQueryAttention")
    y = layer(*inputs) if apart else layer(inputs)
    return keras.Model(inputs, y)


def fill(model):
    """Fills each float variable of a model with random numbers that depend only on its place and shape."""
    for i, v in enumerate(model.weights):
        if "seed" in v.path or not v.dtype.startswith("float"):
            continue
        x = np.random.default_rng(100 + i).normal(size=v.shape) * 0.5
        v.assign(np.abs(x) + 0.5 if v.path.endswith(("variance", "renorm_stddev")) else x)


def outputs_of(model, x):
    y = model(x, training=False)
    return [rounded(v) for v in (y if isinstance(y, (list, tuple)) else [y])]


def stepped(model, x):
    """Returns the loss of a step of SGD over a squared error, and the weights after it."""
    keras.utils.set_random_seed(3)
    y = outputs_of(model, x)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    t = [np.full(v.shape, 0.3, np.float32) for v in y]
    loss = model.train_on_batch(x, t if len(t) > 1 else t[0], return_dict=True)["loss"]
    return [np.float64(loss)] + [rounded(w) for w in model.trainable_weights] + [
        rounded(w) for w in model.non_trainable_weights if "seed" not in w.path]


def differ(a, b):
    return len(a) != len(b) or any(x.shape != y.shape or not np.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
                                   for x, y in zip(a, b))


def variables_of(model, layer):
    """The names of a saved model's variables and their shapes."""
    import tempfile

    import h5py
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.weights.h5")
        model.save_weights(path)
        found = []
        with h5py.File(path) as file:
            file.visititems(lambda n, d: found.append([n, list(d.shape), str(d.dtype)]) if isinstance(d, h5py.Dataset) else None)
    # An attribute gives the layer's group another name. The tests' files lack that attribute.
    return [[n.replace("grouped_query_attention", "group_query_attention"), s, t] for n, s, t in found]


def attempt(work):
    try:
        return work()
    except Exception:  # noqa: BLE001
        return None


def config_of(o):
    return json.loads(json.dumps(keras.saving.serialize_keras_object(o)["config"]))


def layer_cases(name, c, row):
    """Returns for each argument its effects, or why Keras does not take it."""
    given, shapes, dtype = row
    x = [random(s, dtype, 9 + i) for i, s in enumerate(shapes)]

    def build(more):
        keras.utils.set_random_seed(1)
        model = model_of(c(**(made(given) | more | {"name": "layer"})), shapes, dtype)
        fill(model)
        return model, model.get_layer("layer")

    model, layer = build({})
    base = {"config": json.loads(model.to_json()), "variables": variables_of(model, layer)}
    before, trained = outputs_of(model, x), attempt(lambda: stepped(build({})[0], x))
    cases, untaken = [], []
    for argument in arguments_of(c):
        for value in values_of(c, argument):
            value = value() if callable(value) and not isinstance(value, (keras.regularizers.Regularizer, keras.constraints.Constraint)) else value
            if argument in given and str(given[argument]) == str(value):
                print(f"keras_settings: {name}({argument}={value!r}) is what it is made of", file=sys.stderr)
                continue
            try:
                other, changed = build({argument: value})
                new = config_of(changed)
            except Exception as error:  # noqa: BLE001
                untaken.append([argument, str(value), str(error).split("\n")[0][:120]])
                continue
            old = config_of(layer)
            case = {"argument": argument, "set": {k: new[k] for k in new if k not in old or new[k] != old[k]}}
            if not case["set"]:
                untaken.append([argument, str(value), "is not in the configuration"])
                continue
            shapes_now = variables_of(other, changed)
            if shapes_now != base["variables"]:
                case["variables"] = shapes_now
            after = attempt(lambda: outputs_of(build({argument: value})[0], x))
            case["infers"] = after is None or differ(before, after)
            step = attempt(lambda: stepped(build({argument: value})[0], x))
            many = 1 if "variables" in case else None  # weights of other shapes: only the loss is compared
            case["trains"] = None if step is None or trained is None else differ(trained[:many], step[:many])
            if argument == "seed":  # other draws from the same distribution
                case["trains"] = case["trains"] and None
            cases.append(case)
    return {**base, "cases": cases, "untaken": untaken}


# ---- Losses, optimizers, schedules, regularizers, constraints: of a Dense layer that is trained

ROWS, CLASSES = 6, 3


def dense_model(kernel_regularizer=None, kernel_constraint=None, activation=None):
    keras.utils.set_random_seed(1)
    x = keras.Input(FLAT, name="x")
    y = L.Dense(CLASSES, name="dense", kernel_regularizer=kernel_regularizer, kernel_constraint=kernel_constraint, activation=activation)(x)
    model = keras.Model(x, y)
    fill(model)
    return model


def labels_for(loss):
    rng = np.random.default_rng(4)
    if "Sparse" in loss or loss in ("CTC", "Circle"):
        return rng.integers(0, CLASSES, ROWS).astype("int32")
    return np.eye(CLASSES, dtype="float32")[rng.integers(0, CLASSES, ROWS)]


def trained_by(loss, optimizer, **of_dense):
    """Returns the losses of four steps and the weights after them; None if Keras refuses to train so."""

    def work():
        model = dense_model(**of_dense)
        x = np.random.default_rng(8).normal(size=(ROWS, *FLAT)).astype("float32")
        y = labels_for(type(loss).__name__)
        model.compile(optimizer, loss)
        kept = []
        for _ in range(4):
            kept.append(np.float64(model.train_on_batch(x, y, return_dict=True)["loss"]))
        return kept + [rounded(w) for w in model.weights]

    return attempt(work)


def serialized(o):
    return json.loads(json.dumps(keras.saving.serialize_keras_object(o)))


def compiled_cases(kind, module, base, make_given, train, but=()):
    """{class: {"made": serialized, "cases": [...]}}"""
    found = {}
    for name, c in classes(module, base).items():
        if name in but:
            continue
        given = make_given.get(name, {})
        plain = attempt(lambda: train(c(**made(given)), name))
        row = {"made": serialized(c(**made(given))), "cases": [], "untaken": []}
        for argument in arguments_of(c):
            for value in values_of(c, argument):
                if argument in given and str(given[argument]) == str(value):
                    print(f"keras_settings: {name}({argument}={value!r}) is what it is made of", file=sys.stderr)
                    continue
                try:
                    changed = c(**(made(given) | {argument: value}))
                    config = serialized(changed)
                except Exception as error:  # noqa: BLE001
                    row["untaken"].append([argument, str(value), str(error).split("\n")[0][:120]])
                    continue
                old, new = row["made"]["config"], config["config"]
                case = {"argument": argument, "set": {k: new[k] for k in new if k not in old or new[k] != old[k]}}
                if not case["set"]:
                    row["untaken"].append([argument, str(value), "is not in the configuration"])
                    continue
                after = attempt(lambda: train(c(**(made(given) | {argument: value})), name))
                case["trains"] = None if plain is None or after is None else differ(plain, after)
                row["cases"].append(case)
        found[name] = row
    return found


K, S = keras.optimizers, keras.optimizers.schedules
SCHEDULES = {"CosineDecay": {"initial_learning_rate": 0.1, "decay_steps": 8},
             "CosineDecayRestarts": {"initial_learning_rate": 0.1, "first_decay_steps": 2},
             "ExponentialDecay": {"initial_learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5},
             "InverseTimeDecay": {"initial_learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5},
             "PiecewiseConstantDecay": {"boundaries": [2, 3], "values": [0.1, 0.05, 0.01]},
             "PolynomialDecay": {"initial_learning_rate": 0.1, "decay_steps": 8}}


def layers_table():
    layers = {}
    for name, c in classes(L, L.Layer).items():
        if name in NOT_MADE or name == "InputLayer" or (name in MADE_OF and MADE_OF[name] is None):
            continue
        try:
            layers[name] = layer_cases(name, c, MADE_OF.get(name, ({}, [FLAT], "float32")))
        except ValueError as error:
            print("keras_settings:", name, "Keras makes no model of it:", str(error).split("\n")[0][:80], file=sys.stderr)
            continue
        print("keras_settings:", name, len(layers[name]["cases"]), "cases", file=sys.stderr)
    return layers


def dense_table():
    dense = dense_model()
    return {"config": json.loads(dense.to_json()), "variables": variables_of(dense, None)}


MSE = keras.losses.MeanSquaredError
KINDS = {
    "dense": dense_table,
    "losses": lambda: compiled_cases("losses", keras.losses, keras.losses.Loss, {}, lambda o, n: trained_by(o, K.SGD(0.1))),
    "optimizers": lambda: compiled_cases("optimizers", K, K.Optimizer, {"LossScaleOptimizer": {"inner_optimizer": lambda: K.SGD(0.1)}},
                                         lambda o, n: trained_by(MSE(), o), ("MultiOptimizer",)),
    "schedules": lambda: compiled_cases("schedules", S, S.LearningRateSchedule, SCHEDULES, lambda o, n: trained_by(MSE(), K.SGD(o))),
    "regularizers": lambda: compiled_cases("regularizers", keras.regularizers, keras.regularizers.Regularizer, {},
                                           lambda o, n: trained_by(MSE(), K.SGD(0.1), kernel_regularizer=o)),
    "constraints": lambda: compiled_cases("constraints", keras.constraints, keras.constraints.Constraint, {},
                                          lambda o, n: trained_by(MSE(), K.SGD(0.1), kernel_constraint=o)),
    "layers": layers_table,
}


def text_of(made):
    """A line for each class."""
    lines = []
    for key, value in made.items():
        if isinstance(value, dict) and key != "dense":
            inside = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inside}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("kinds", nargs="*", help="which to compute: " + ", ".join(KINDS))
    given = arguments.parse_args()
    path = pathlib.Path(__file__).with_suffix(".json")
    made = json.loads(path.read_text(encoding="utf-8")) if given.kinds and path.exists() else {}
    made = {"keras": keras.__version__, "backend": keras.backend.backend()} | {k: v for k, v in made.items() if k in KINDS}
    for kind in given.kinds or KINDS:
        made[kind] = KINDS[kind]()
    text = text_of(made)
    if not given.check:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{path} is not what Keras {keras.__version__} says")


if __name__ == "__main__":
    main()

"""Makes small models of the layers in keras.layers: {name: Case}. SKIPPED says which have none, and why."""
import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import layers as L
from keras import ops

IMAGE, SEQUENCE, FLAT, VOLUME, FILM = (9, 8, 6), (7, 6), (12,), (6, 5, 7, 4), (4, 7, 6, 3)


@dataclasses.dataclass
class Case:
    kinds: tuple[str, ...]
    build: Callable[[], keras.Model]
    roundings: int = 8  # how many roundings follow one another; the tolerance of 16-bit policies grows with it
    at_least: float = 0  # the least tolerance, for a case that has a policy of its own
    not_quantized: str = ""  # why Keras does not compute it with codes


CASES: dict[str, Case] = {}
BASES = "a class that others are made of, or a decorator of one"
TENSORFLOW = "works with TensorFlow alone, on texts or hashes"
FOREIGN = "holds code of another framework"
SKIPPED = {
    **dict.fromkeys(("Layer", "InputSpec", "Wrapper"), BASES),
    **dict.fromkeys(("Hashing", "HashedCrossing", "StringLookup", "TextVectorization", "IntegerLookup"), TENSORFLOW),
    **dict.fromkeys(("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"), FOREIGN),
    "Lambda": "holds Python code",
    "MaxNumBoundingBoxes": "changes labels of training, not images",
    "Input": "a function that makes an InputLayer",
    **dict.fromkeys(("add", "average", "concatenate", "dot", "maximum", "minimum", "multiply", "subtract"),
                    "a function that calls the layer of its name"),
    **dict.fromkeys(("serialize", "deserialize"), "no layer"),
}


def case(name, build, *kinds, roundings=8):
    CASES[name] = Case(kinds or (name.split(" ")[0],), build, roundings)


def one(name, shape, *makes, dtype="float32", kinds=(), roundings=8):
    """Adds a sequential model of these layers."""
    case(name, lambda: keras.Sequential([keras.Input(shape, dtype=dtype), *[make() for make in makes]]), *kinds,
         roundings=roundings)


def on(name, shapes, build, *kinds, dtype="float32", roundings=8):
    """Adds a functional model with inputs of these shapes. `build` makes its output, or a list of outputs."""

    def make():
        inputs = [keras.Input(shape, name=f"in{i}", dtype=dtype) for i, shape in enumerate(shapes)]
        return keras.Model(inputs, build(*inputs))

    case(name, make, *kinds, roundings=roundings)


# ---- Activations

ACTIVATIONS = ["relu", "relu6", "leaky_relu", "sigmoid", "tanh", "softmax", "log_softmax", "elu", "celu", "selu",
               "softplus", "softsign", "exponential", "silu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "mish",
               "tanh_shrink", "log_sigmoid", "hard_shrink", "soft_shrink", "squareplus", "sparse_plus",
               "sparse_sigmoid", "glu", "linear"]
on("Activation", [(6, 8)], lambda x: [L.Activation(n, name=n)(x) for n in ACTIVATIONS])
on("ReLU", [FLAT], lambda x: [L.ReLU()(x), L.ReLU(6)(x), L.ReLU(1.5, 0.2, 0.3)(x), L.ReLU(negative_slope=0.2)(x)])
one("LeakyReLU", FLAT, lambda: L.LeakyReLU(0.1))
one("PReLU", IMAGE, lambda: L.PReLU(shared_axes=[1, 2]))
one("ELU", FLAT, lambda: L.ELU(0.7))
on("Softmax", [IMAGE], lambda x: [L.Softmax()(x), L.Softmax(axis=1)(x), L.Softmax(axis=[1, 2])(x)])

# ---- Products

one("Dense", FLAT, lambda: L.Dense(8, activation="relu"), lambda: L.Dense(3, activation="softmax", use_bias=False))
one("Dense of images", IMAGE, lambda: L.Dense(5))
EINSUMS = {"heads": ("abc,cde->abde", (None, 2, 3), "de"), "joined": ("abcd,cde->abe", (None, 5), "e"),
           "turned": ("abc,bd->acd", (6, 5), "c"), "kernel turned": ("abc,dc->abd", (None, 5), "d"),
           "ellipsis": ("...x,xy->...y", (None, 5), "y"), "no bias": ("abc,cd->abd", (None, 5), None)}
for name, (equation, shape, bias) in EINSUMS.items():
    one(f"EinsumDense {name}", (7, 2, 3) if name == "joined" else SEQUENCE,
        lambda e=equation, s=shape, b=bias: L.EinsumDense(e, output_shape=s, bias_axes=b, activation="tanh"))
one("Embedding", (6,), lambda: L.Embedding(11, 5), lambda: L.Flatten(), lambda: L.Dense(2), dtype="int32")


def reversible(**options):
    x = keras.Input((6,), dtype="int32", name="ids")
    layer = L.ReversibleEmbedding(11, 6, **options)
    return keras.Model(x, layer(L.Dense(6, activation="tanh")(layer(x)), reverse=True))


case("ReversibleEmbedding", lambda: reversible(logit_soft_cap=3.0))
case("ReversibleEmbedding untied", lambda: reversible(tie_weights=False))

# ---- Convolutions

one("Conv1D", SEQUENCE, lambda: L.Conv1D(4, 3, strides=2, padding="same", activation="tanh"))
one("Conv1D causal", SEQUENCE, lambda: L.Conv1D(4, 3, dilation_rate=2, padding="causal"))
one("Conv2D", IMAGE, lambda: L.Conv2D(4, (3, 2), activation="relu"), lambda: L.Conv2D(4, 3, strides=2,
    padding="same"))
one("Conv2D dilated", IMAGE, lambda: L.Conv2D(4, 3, dilation_rate=2, padding="same", use_bias=False))
one("Conv2D groups", IMAGE, lambda: L.Conv2D(6, 3, groups=3))
one("Conv2D channels_first", (3, 9, 8), lambda: L.Conv2D(4, 3, data_format="channels_first"),
    lambda: L.MaxPooling2D(2, data_format="channels_first"), lambda: L.Flatten(data_format="channels_first"))
one("Conv3D", VOLUME, lambda: L.Conv3D(4, 3, strides=(2, 1, 2), padding="same", activation="relu"))
one("Conv3D groups", VOLUME, lambda: L.Conv3D(4, (2, 3, 2), groups=2))
one("Conv3D dilated", VOLUME, lambda: L.Conv3D(3, 2, dilation_rate=2))
one("DepthwiseConv1D", SEQUENCE, lambda: L.DepthwiseConv1D(3, depth_multiplier=2))
one("DepthwiseConv2D", IMAGE, lambda: L.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same"))
one("SeparableConv1D", SEQUENCE, lambda: L.SeparableConv1D(4, 3))
one("SeparableConv2D", IMAGE, lambda: L.SeparableConv2D(4, 3, depth_multiplier=2, padding="same", activation="relu"))
one("Conv1DTranspose", SEQUENCE, lambda: L.Conv1DTranspose(4, 3, strides=2))
one("Conv2DTranspose", IMAGE, lambda: L.Conv2DTranspose(4, 3, strides=2, padding="same"),
    lambda: L.Conv2DTranspose(3, (3, 2), strides=(1, 2), activation="relu"))
one("Conv2DTranspose output_padding", (5, 4, 3), lambda: L.Conv2DTranspose(4, 3, strides=2, output_padding=1),
    lambda: L.Conv2DTranspose(2, 4, strides=3, padding="same", output_padding=(2, 1)))
one("Conv3DTranspose", (3, 4, 3, 3), lambda: L.Conv3DTranspose(4, 3, strides=2, padding="same"))
one("Conv3DTranspose valid", (3, 4, 3, 3), lambda: L.Conv3DTranspose(4, (2, 3, 2), strides=(3, 1, 2)))

# ---- Normalizations

one("BatchNormalization", IMAGE, lambda: L.BatchNormalization(), lambda: L.BatchNormalization(axis=1, scale=False))
one("LayerNormalization", SEQUENCE, lambda: L.LayerNormalization())
one("LayerNormalization axes", IMAGE, lambda: L.LayerNormalization(axis=[-2, -1], center=False))
one("LayerNormalization first", IMAGE, lambda: L.LayerNormalization(axis=1))
one("GroupNormalization", IMAGE, lambda: L.GroupNormalization(3), lambda: L.GroupNormalization(-1, scale=False))
one("GroupNormalization first", IMAGE, lambda: L.GroupNormalization(3, axis=1))
one("RMSNormalization", SEQUENCE, lambda: L.RMSNormalization())
one("UnitNormalization", SEQUENCE, lambda: L.UnitNormalization())
one("SpectralNormalization", IMAGE, lambda: L.SpectralNormalization(L.Conv2D(4, 3)), kinds=("SpectralNormalization",))


def normalization(invert):
    layer = L.Normalization(invert=invert)
    layer.adapt(np.random.default_rng(1).normal(3, 2, (64, 12)))
    return keras.Sequential([keras.Input((12,)), layer])


case("Normalization", lambda: normalization(False))
case("Normalization invert", lambda: normalization(True))
one("Rescaling", IMAGE, lambda: L.Rescaling(1 / 127.5, offset=-1))

# ---- Pools

for rank, shape in ((1, (12, 3)), (2, (12, 11, 3)), (3, (8, 9, 7, 3))):
    for kind in ("Max", "Average"):
        layer = getattr(L, f"{kind}Pooling{rank}D")
        one(f"{kind}Pooling{rank}D", shape, lambda c=layer: c(3, strides=2, padding="same"), lambda c=layer: c(2))
        whole = getattr(L, f"Global{kind}Pooling{rank}D")
        on(f"Global{kind}Pooling{rank}D", [shape], lambda x, c=whole: [c()(x), c(keepdims=True)(x)])
        adaptive = getattr(L, f"Adaptive{kind}Pooling{rank}D")
        one(f"Adaptive{kind}Pooling{rank}D", shape, lambda c=adaptive: c(5))

# ---- Shapes

one("Flatten", IMAGE, lambda: L.Flatten())
one("Permute", IMAGE, lambda: L.Permute((3, 1, 2)))
one("Reshape", IMAGE, lambda: L.Reshape((6, -1)))
one("RepeatVector", FLAT, lambda: L.RepeatVector(3))
one("ZeroPadding1D", SEQUENCE, lambda: L.ZeroPadding1D((2, 1)))
one("ZeroPadding2D", IMAGE, lambda: L.ZeroPadding2D(((1, 2), (0, 3))), lambda: L.ZeroPadding2D((1, 2)))
one("ZeroPadding3D", VOLUME, lambda: L.ZeroPadding3D(((1, 0), (2, 1), (0, 1))), lambda: L.ZeroPadding3D((1, 0, 2)))
one("Cropping1D", SEQUENCE, lambda: L.Cropping1D((1, 2)))
one("Cropping2D", IMAGE, lambda: L.Cropping2D(((2, 1), (1, 1))))
one("Cropping3D", VOLUME, lambda: L.Cropping3D(((1, 1), (0, 2), (1, 2))))
one("UpSampling1D", SEQUENCE, lambda: L.UpSampling1D(3))
on("UpSampling2D", [IMAGE], lambda x: [L.UpSampling2D((2, 3))(x), L.UpSampling2D(2, interpolation="bilinear")(x),
                                       L.UpSampling2D((3, 2), interpolation="bicubic")(x)])
one("UpSampling3D", VOLUME, lambda: L.UpSampling3D((2, 1, 3)))
one("Identity", FLAT, lambda: L.Identity(), lambda: L.Dense(2), kinds=("Identity", "InputLayer"))

# ---- Layers that act in training alone

for kind in ("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise"):
    one(kind, FLAT, lambda k=kind: getattr(L, k)(0.5))
one("ActivityRegularization", FLAT, lambda: L.ActivityRegularization(0.1))
for rank, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
    one(f"SpatialDropout{rank}D", shape, lambda r=rank: getattr(L, f"SpatialDropout{r}D")(0.5))
AUGMENTATIONS = {
    "AugMix": {}, "CutMix": {}, "MixUp": {}, "RandAugment": {}, "Equalization": {}, "RandomBrightness": {"factor": 0.2},
    "RandomColorDegeneration": {"factor": 0.5},
    "RandomColorJitter": {"brightness_factor": 0.2},
    "RandomContrast": {"factor": 0.2}, "RandomCrop": {"height": 9, "width": 8}, "RandomElasticTransform": {},
    "RandomErasing": {}, "RandomFlip": {}, "RandomGaussianBlur": {}, "RandomGrayscale": {},
    "RandomHue": {"factor": 0.2},
    "RandomInvert": {}, "RandomPerspective": {}, "RandomPosterization": {"factor": 4},
    "RandomRotation": {"factor": 0.2},
    "RandomSaturation": {"factor": 0.2}, "RandomSharpness": {"factor": 0.2}, "RandomShear": {"x_factor": 0.2},
    "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2}, "RandomZoom": {"height_factor": 0.2},
    "Solarization": {}}
for kind, options in AUGMENTATIONS.items():
    one(kind, (9, 8, 3), lambda k=kind, o=options: getattr(L, k)(**o))

# ---- Images, categories, signals

one("AutoContrast", (9, 8, 3), lambda: L.AutoContrast(value_range=(-3, 3)), roundings=16)  # by way of 0 .. 255
one("ContrastLimitedAdaptiveHistogramEqualization", (16, 16, 3),
    lambda: L.ContrastLimitedAdaptiveHistogramEqualization(value_range=(-3, 3)))
on("Resizing", [(9, 8, 3)], lambda x: [L.Resizing(5, 13)(x), L.Resizing(12, 10, interpolation="nearest")(x),
                                       L.Resizing(4, 11, interpolation="bicubic", antialias=True)(x),
                                       L.Resizing(6, 9, crop_to_aspect_ratio=True)(x),
                                       L.Resizing(6, 9, pad_to_aspect_ratio=True, fill_value=0.5)(x),
                                       L.Resizing(14, 6, interpolation="lanczos3")(x)])
on("CenterCrop", [(9, 8, 3)], lambda x: [L.CenterCrop(6, 5)(x), L.CenterCrop(12, 4)(x)])
one("Pipeline", (9, 8, 3), lambda: L.Pipeline([L.RandomFlip(), L.Rescaling(2.0), L.CenterCrop(6, 6)]))
on("CategoryEncoding", [(5,)], lambda x: [L.CategoryEncoding(11, output_mode=m)(x) for m in ("multi_hot", "one_hot",
    "count")],
   dtype="int32")
on("Discretization", [FLAT], lambda x: [L.Discretization([-0.5, 0.0, 0.7], output_mode=m)(x) for m in ("int",
    "one_hot")])
on("STFTSpectrogram", [(200, 2)], lambda x: [
    L.STFTSpectrogram(mode=m, frame_length=32, frame_step=16, fft_length=32, expand_dims=e)(x)
    for m, e in (("log", False), ("magnitude", True), ("psd", False), ("stft", True), ("real", False), ("imag",
        False))])
on("MelSpectrogram", [(600,)], lambda x: [
    L.MelSpectrogram(fft_length=128, sequence_stride=64, sampling_rate=8000, num_mel_bins=16)(x),
    L.MelSpectrogram(fft_length=128, sequence_length=100, sequence_stride=50, sampling_rate=8000, num_mel_bins=8,
                     min_freq=0, power_to_db=False, mag_exp=1.0)(x)])

# ---- Layers of several inputs

for kind in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
    on(kind, [(4, 5), (4, 5)], lambda a, b, k=kind: getattr(L, k)()([a, b]))
on("Add of ranks", [(4, 5), (5,)], lambda a, b: L.Add()([a, b]))
on("Concatenate first", [(4, 5), (3, 5)], lambda a, b: L.Concatenate(axis=1)([a, b]))
on("Dot", [(4, 5), (5, 3)], lambda a, b: L.Dot(axes=(2, 1))([a, b]))
on("Dot cosine", [(5,), (5,)], lambda a, b: L.Dot(axes=1, normalize=True)([a, b]))

# ---- Recurrences

for kind in ("LSTM", "GRU", "SimpleRNN"):
    cell, layer = getattr(L, f"{kind}Cell"), getattr(L, kind)
    one(kind, SEQUENCE, lambda c=layer: c(4, return_sequences=True), lambda c=layer: c(3), roundings=32)
    one(f"{kind} backwards", SEQUENCE, lambda c=layer: c(4, use_bias=False, return_sequences=True, go_backwards=True),
        roundings=32)
    on(f"{kind} states", [SEQUENCE], lambda x, c=layer: list(c(4, return_state=True)(x)), roundings=32)
    one(f"{kind} activations", SEQUENCE, lambda c=layer: c(4, activation="relu"), roundings=32)
    one(f"{kind}Cell", SEQUENCE, lambda c=cell: L.RNN(c(4), return_sequences=True), kinds=(f"{kind}Cell", "RNN"),
        roundings=32)
    one(f"{kind} of masked steps", (7,), lambda: L.Embedding(11, 6, mask_zero=True),
        lambda c=layer: c(4, return_sequences=True), lambda c=layer: c(3), dtype="int32", roundings=32)

    def stateful(c=layer):
        x = keras.Input(batch_shape=(2, *SEQUENCE))
        return keras.Model(x, c(4, stateful=True)(x))

    case(f"{kind} stateful", stateful, roundings=32)
one("GRU reset before", SEQUENCE, lambda: L.GRU(4, reset_after=False), roundings=32)
one("GRU hard_sigmoid", SEQUENCE, lambda: L.GRU(4, reset_after=False, recurrent_activation="hard_sigmoid"),
    roundings=32)
one("LSTM hard_sigmoid", SEQUENCE, lambda: L.LSTM(4, recurrent_activation="hard_sigmoid", return_sequences=True),
    roundings=32)
one("LSTM zero of masked steps", (7,), lambda: L.Embedding(11, 6, mask_zero=True),
    lambda: L.LSTM(4, return_sequences=True, zero_output_for_mask=True), dtype="int32", roundings=32)
one("StackedRNNCells", SEQUENCE, lambda: L.RNN(L.StackedRNNCells([L.LSTMCell(4), L.GRUCell(3), L.SimpleRNNCell(5)])),
    kinds=("StackedRNNCells", "RNN"), roundings=64)
one("StackedRNNCells alike", SEQUENCE, lambda: L.RNN(L.StackedRNNCells([L.LSTMCell(4), L.LSTMCell(3)]),
    return_sequences=True),
    kinds=("StackedRNNCells", "RNN"), roundings=64)
one("Bidirectional LSTM", SEQUENCE, lambda: L.Bidirectional(L.LSTM(4, return_sequences=True)),
    kinds=("Bidirectional",), roundings=32)
one("Bidirectional GRU", SEQUENCE, lambda: L.Bidirectional(L.GRU(4), merge_mode="sum"), kinds=("Bidirectional",),
    roundings=32)
one("Bidirectional other", SEQUENCE, lambda: L.Bidirectional(L.SimpleRNN(4), backward_layer=L.LSTM(4,
    go_backwards=True), merge_mode="ave"),
    kinds=("Bidirectional",), roundings=32)
one("Bidirectional RNN", SEQUENCE, lambda: L.Bidirectional(L.RNN(L.GRUCell(4))), kinds=("Bidirectional", "RNN"),
    roundings=32)
one("Bidirectional of masked steps", (7,), lambda: L.Embedding(11, 6, mask_zero=True),
    lambda: L.Bidirectional(L.LSTM(4, return_sequences=True)), lambda: L.Bidirectional(L.GRU(3)), dtype="int32",
    kinds=("Bidirectional", "Embedding"), roundings=64)
one("TimeDistributed", (4, 9, 8, 2), lambda: L.TimeDistributed(L.Conv2D(3, 3)),
    lambda: L.TimeDistributed(L.Flatten()),
    lambda: L.TimeDistributed(L.Dense(4)))
CASES["TimeDistributed"].not_quantized = "its step does not divide by the scale of the kernel, as the layer alone does"
one("TimeDistributed of a model", (4, 9, 8, 2), lambda: L.TimeDistributed(keras.Sequential(
    [L.Conv2D(3, 3, activation="relu"), L.BatchNormalization(),
        L.GlobalAveragePooling2D()])), lambda: L.LSTM(3), roundings=32)
for rank, shape in ((1, (4, 7, 3)), (2, FILM), (3, (3, 4, 5, 4, 2))):
    one(f"ConvLSTM{rank}D", shape, lambda r=rank: getattr(L, f"ConvLSTM{r}D")(3, 3, padding="same",
        return_sequences=True),
        roundings=32)
one("ConvLSTM2D strided", FILM, lambda: L.ConvLSTM2D(3, (3, 2), strides=2, recurrent_activation="hard_sigmoid"),
    lambda: L.Dense(2), roundings=32)


def encoder_decoder():
    x, y = keras.Input((5, 4), name="source"), keras.Input((6, 4), name="target")
    _, h, c = L.LSTM(3, return_state=True)(x)
    return keras.Model([x, y], [L.Dense(2)(L.LSTM(3, return_sequences=True)(y, initial_state=[h, c])), h])


case("LSTM encoder and decoder", encoder_decoder, roundings=64)

# ---- Masks

one("Masking", SEQUENCE, lambda: L.ReLU(), lambda: L.Masking(0.0), lambda: L.GRU(4), kinds=("Masking",), roundings=32)
one("GlobalAveragePooling1D of masked steps", (7,), lambda: L.Embedding(11, 6, mask_zero=True), lambda: L.Dense(4),
    lambda: L.GlobalAveragePooling1D(), dtype="int32")
one("Masks dropped", (7,), lambda: L.Embedding(11, 6, mask_zero=True), lambda: L.Conv1D(4, 2), lambda: L.LSTM(3),
    dtype="int32", kinds=("Embedding",), roundings=32)


def merged_masks():
    a, b = (keras.Input((7,), dtype="int32", name=n) for n in "ab")
    x, y = (L.Embedding(11, 6, mask_zero=True)(t) for t in (a, b))
    return keras.Model([a, b], [L.LSTM(3)(L.Add()([x, y])), L.LSTM(3)(L.Concatenate()([x, y])),
                                L.LSTM(3)(L.Concatenate(axis=1)([x, y]))])


case("Masks of several inputs", merged_masks, "Add", "Concatenate", roundings=64)

# ---- Attention

# JAX's fused attention, which Keras calls without dropout, needs values as wide as keys, and no float16 on a CPU.
on("MultiHeadAttention", [(5, 8), (7, 8)], lambda q, v: L.MultiHeadAttention(2, 4, value_dim=3, output_shape=6,
    dropout=0.1)(q, v))
on("MultiHeadAttention causal", [(6, 8)], lambda x: L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
on("MultiHeadAttention scores", [(5, 8)], lambda x: list(L.MultiHeadAttention(2, 4)(x, x,
    return_attention_scores=True)))
on("MultiHeadAttention images", [(3, 4, 8)], lambda x: [L.MultiHeadAttention(2, 4)(x, x), L.MultiHeadAttention(2, 4,
    attention_axes=(2,))(x, x)])
on("MultiHeadAttention window", [(6, 8)], lambda x: L.MultiHeadAttention(2, 4, sliding_window=2, use_gate=True)(x, x,
    use_causal_mask=True))
on("MultiHeadAttention mask", [(5, 8), (5, 5)], lambda x, m: L.MultiHeadAttention(2, 4, use_bias=False)(x, x,
    attention_mask=ops.greater(m, -0.5)))


def masked_attention(layer):
    ids = keras.Input((7,), dtype="int32", name="ids")
    x = L.Embedding(11, 8, mask_zero=True)(ids)
    return keras.Model(ids, L.GlobalAveragePooling1D()(layer(x, x)))


case("MultiHeadAttention of masked steps", lambda: masked_attention(L.MultiHeadAttention(2, 4)))
case("GroupedQueryAttention of masked steps", lambda: masked_attention(L.GroupQueryAttention(4, 4, 2)),
    "GroupQueryAttention")
on("GroupQueryAttention", [(6, 8)], lambda x: L.GroupQueryAttention(4, 4, 2)(x, x, use_causal_mask=True))
on("GroupQueryAttention window", [(6, 8)], lambda x: L.GroupQueryAttention(4, 4, 2, use_gate=True,
    sliding_window=3)(x, x))
on("Attention", [(5, 4), (7, 4)], lambda q, v: [L.Attention(use_scale=True)([q, v]),
    L.Attention(score_mode="concat")([q, v])])
on("AdditiveAttention", [(5, 4), (7, 4)], lambda q, v: L.AdditiveAttention()([q, v]))


def masked_lists(layer):
    a, b = (keras.Input((6,), dtype="int32", name=n) for n in "ab")
    x, y = (L.Embedding(11, 5, mask_zero=True)(t) for t in (a, b))
    return keras.Model([a, b], layer([x, y], use_causal_mask=True))


case("Attention of masked steps", lambda: masked_lists(L.Attention()))
case("AdditiveAttention of masked steps", lambda: masked_lists(L.AdditiveAttention()))

# ---- Models: shared, nested, with functions of keras.ops


def shared():
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    layer = L.Dense(4, activation="tanh", name="shared")
    return keras.Model([a, b], [L.Concatenate(name="both")([layer(a), layer(b)]), L.Subtract(name="apart")([layer(a),
        layer(b)])])


def nested():
    inner = keras.Sequential([L.Dense(4, activation="relu"), L.BatchNormalization(), L.Dense(4)], name="inner")
    middle_in = keras.Input((4,))
    middle = keras.Model(middle_in, L.Add()([inner(middle_in), middle_in]), name="middle")
    x = keras.Input((4,), name="x")
    return keras.Model(x, L.Dense(3)(middle(inner(middle(x)))))


def residual():
    x = keras.Input((8, 8, 3), name="image")
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 3, padding="same", use_bias=False)(x)))
    z = L.BatchNormalization()(L.Conv2D(8, 3, padding="same")(y))
    y = L.GlobalAveragePooling2D()(L.Dropout(0.3)(L.Activation("relu")(L.Add()([z, y]))))
    return keras.Model(x, L.Dense(10, activation="softmax")(y))


def transformer():
    ids = keras.Input((6,), dtype="int32", name="ids")
    x = L.Embedding(11, 8)(ids) + L.Embedding(6, 8)(ops.arange(6))
    y = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    z = L.Dense(8)(L.Dense(16, activation="gelu")(y))
    return keras.Model(ids, L.Dense(3)(L.LayerNormalization()(y + z)[:, -1]))


def policy_map():
    kinds = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    x = keras.Input((6, 8), name="x")
    layer = L.MultiHeadAttention(2, 4, dtype=kinds, name="heads")
    kinds["heads/query"] = keras.dtype_policies.DTypePolicy("mixed_bfloat16")
    kinds["heads/value"] = keras.dtype_policies.DTypePolicy("mixed_bfloat16")
    return keras.Model(x, layer(x, x))


case("shared layer", shared, "Dense", "Subtract")
case("nested models", nested, "Dense", "Add", "BatchNormalization", roundings=24)
case("residual network", residual, "Conv2D", "Dropout", roundings=24)
case("transformer", transformer, "MultiHeadAttention", "LayerNormalization", roundings=32)
case("DTypePolicyMap", policy_map, "MultiHeadAttention")
CASES["DTypePolicyMap"].at_least = 8 * 2.0**-9  # its map has mixed_bfloat16
on("functions that move", [(4, 6)], lambda x: [
    x[:, 0], x[:, ::2, 1:-1], x[:, None, ..., -1], ops.transpose(x, (0, 2, 1)), ops.reshape(x, (-1,
        24)), ops.expand_dims(x, 1),
    ops.squeeze(ops.expand_dims(x, -1), -1), ops.concatenate([x, x], 1), ops.stack([x, x], 1), *ops.split(x, 2,
    2), ops.flip(x, 1),
    ops.pad(x, ((0, 0), (1, 2), (0, 1))), ops.tile(x, (1, 2, 1)), ops.repeat(x, 3, 2), ops.swapaxes(x, 1,
    2), *ops.unstack(x, axis=1)],
   "keras.ops")
on("functions that sum", [(4, 6), (4, 6)], lambda x, y: [
    ops.einsum("bij,bkj->bik", x, y), ops.einsum("...ij->...j", x), ops.einsum("bij,bij,bij->bi", x, y, x),
    ops.tensordot(x, y, axes=[[1, 2], [1, 2]]), ops.inner(x, y), ops.outer(x, y), ops.cumsum(x, axis=1),
    ops.normalize(x, axis=-1), ops.normalize(x, axis=1, order=1), *ops.moments(x, axes=[1], keepdims=True)],
   "keras.ops")
on("functions that choose", [(4, 6)], lambda x: [
    ops.roll(x, 2, axis=1), ops.take(x, [0, -1, 2], axis=2), ops.take(x, 3, axis=1),
    ops.take(x, ops.argmax(x, 1), axis=1),
    ops.tril(x), ops.triu(x, 1), ops.moveaxis(x, 1, 2), ops.broadcast_to(x[:, None], (2, 3, 4, 6)), ops.diff(x, axis=1),
    *ops.top_k(x, 3)],
   "keras.ops")
on("functions that are formulas", [(4, 6), (4, 6)], lambda x, y: [
    ops.log1p(ops.abs(x)), ops.log2(ops.abs(x) + 1), ops.log10(ops.abs(x) + 1), ops.exp2(x), ops.expm1(x), ops.sinh(x),
    ops.cosh(x), ops.tan(x), ops.round(x * 3), ops.trunc(x * 3), ops.mod(x * 3, y + 3), ops.logaddexp(x, y),
    ops.hypot(x, y), ops.average(x, axis=1), ops.full_like(x, 2.5), ops.isfinite(x), ops.threshold(x, 0.1, 20.0),
    ops.divide_no_nan(x, y)],
   "keras.ops")
on("functions of images", [(8, 8, 3)], lambda x: [
    ops.image.resize(x, (5, 12)), ops.image.resize(x, (16, 4), interpolation="nearest"), ops.image.rgb_to_grayscale(x),
    ops.max_pool(x, 2, 2), ops.average_pool(x, 3, 1, padding="same")],
   "keras.ops")
on("functions that compute", [(4, 6), (4, 6)], lambda x, y: [
    (x * 2.0 + 1.0) / 3.0 - y, ops.mean(x, axis=-1), ops.sum(x, axis=1, keepdims=True), ops.max(x, axis=(1,
        2)), ops.min(x, axis=1),
    ops.var(x, axis=-1), ops.std(x, axis=1), ops.logsumexp(x,
    axis=-1), ops.exp(x), ops.sqrt(ops.abs(x) + 1.0), ops.square(x), -x,
    ops.power(ops.abs(x) + 0.5, 1.5), ops.maximum(x, y), ops.minimum(x, 0.1), ops.matmul(x, ops.transpose(y, (0, 2,
    1))),
    ops.clip(x, -0.5, 0.5), ops.where(ops.greater(x, y), x, 0.0), ops.argmax(x, axis=-1), ops.softmax(x,
    axis=1), ops.relu(x),
    ops.gelu(x), ops.silu(x), ops.sigmoid(x), ops.tanh(x), ops.log_softmax(x), ops.one_hot(ops.argmax(x, -1),
    6), ops.rsqrt(ops.square(x) + 1.0)],
   "keras.ops")

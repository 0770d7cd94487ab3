"""Recurrences, attention, sound, pictures out of pictures: small Keras networks as people write them."""
from keras_networks import KerasNetwork, keras, make, settings

L = keras.layers


def recurrence(kind):
    """A layer that is written out where TensorFlow's converter cannot quantize its loop."""
    return lambda *sizes, **options: getattr(L, kind)(*sizes, **{"unroll": settings.unroll} | options)


LSTM, GRU, SimpleRNN, ConvLSTM2D = map(recurrence, ("LSTM", "GRU", "SimpleRNN", "ConvLSTM2D"))


def net(shape, body, dtype="float32"):
    """The network of one input whose layers `body` applies."""

    def build():
        x = keras.Input(shape, batch_size=1, dtype=dtype)
        return keras.Model(x, body(x))

    return build


def follow(x, *parts):
    for part in parts:
        x = part(x)
    return x


def sequence(recurrent, shape=(12, 5)):
    """A recurrence over a short sequence, and a classifier."""
    return net(shape, lambda x: L.Dense(4, activation="softmax")(recurrent()(x)))


def tagger(recurrent, shape=(12, 5)):
    return net(shape, lambda x: L.Dense(3)(recurrent()(x)))


def stacked(x):
    x = GRU(8)(LSTM(8, return_sequences=True)(L.Conv1D(8, 3, padding="same", activation="relu")(x)))
    return L.Dense(4, activation="softmax")(x)


def autoencoder(x):
    x = L.RepeatVector(10)(LSTM(8)(x))
    return L.TimeDistributed(L.Dense(5))(LSTM(8, return_sequences=True)(x))


def video(x):
    x = L.TimeDistributed(L.Conv2D(4, 3, activation="relu"))(x)
    return L.Dense(3)(LSTM(8)(L.TimeDistributed(L.GlobalAveragePooling2D())(x)))


def speech(x):
    x = L.Conv2D(8, (5, 3), 2, padding="same", activation="relu")(L.Reshape((40, 10, 1))(x))
    x = L.Bidirectional(GRU(8, return_sequences=True))(L.Reshape((20, 40))(x))
    return L.Dense(12, activation="softmax")(x)


def text(recurrent):
    return net((10,), lambda x: L.Dense(2)(recurrent()(L.Embedding(50, 8, mask_zero=True)(x))), "int32")


def encoder_block(x, width=16, causal=False):
    a = L.MultiHeadAttention(2, width // 2)(x, x, use_causal_mask=causal)
    x = L.LayerNormalization()(x + a)
    h = L.Dense(width)(L.Dense(2 * width, activation="gelu")(x))
    return L.LayerNormalization()(x + h)


class Positions(L.Layer):
    """A table of vectors, added by their place."""

    def build(self, shape):
        self.table = self.add_weight(shape=(shape[1], shape[2]), initializer="uniform", name="table")

    def call(self, x):
        return x + self.table


def language(x):
    x = Positions()(L.Embedding(40, 16)(x))
    x = encoder_block(encoder_block(x, causal=True), causal=True)
    return L.Dense(40)(x)


def vision_transformer(x):
    x = L.Reshape((16, 16))(L.Conv2D(16, 4, 4)(x))
    x = encoder_block(Positions()(x))
    return L.Dense(5)(L.GlobalAveragePooling1D()(x))


def cross_attention(x):
    y = L.Dense(16)(x)
    a = L.Attention()([y, y])
    b = L.AdditiveAttention()([y, y])
    return L.Dense(4)(L.Flatten()(L.Concatenate()([a, b])))


def unet(x):
    conv = lambda x, n: L.Activation("relu")(L.BatchNormalization()(L.Conv2D(n, 3, padding="same", use_bias=False)(x)))
    a = conv(x, 8)
    b = conv(L.MaxPooling2D()(a), 16)
    c = conv(L.MaxPooling2D()(b), 16)
    b = conv(L.Concatenate()([L.Conv2DTranspose(16, 2, 2)(c), b]), 16)
    a = conv(L.Concatenate()([L.UpSampling2D(interpolation="bilinear")(b), a]), 8)
    return L.Conv2D(2, 1, activation="sigmoid")(a)


def segmentation(x):
    x = L.SeparableConv2D(8, 3, 2, padding="same", activation="relu")(x)
    y = [L.Conv2D(8, 3, padding="same", dilation_rate=r, activation="relu")(x) for r in (1, 2, 4)]
    x = L.UpSampling2D(2)(L.Concatenate()(y))
    return L.Softmax()(L.Conv2DTranspose(3, 3, padding="same")(x))


def generator(x):
    x = L.Reshape((4, 4, 8))(L.Dense(128)(x))
    x = L.LeakyReLU(0.2)(L.BatchNormalization()(L.Conv2DTranspose(8, 4, 2, padding="same")(x)))
    return L.Conv2DTranspose(3, 5, 2, padding="same", activation="tanh")(x)


def super_resolution(x):
    y = L.Conv2D(12, 3, padding="same")(L.PReLU(shared_axes=[1, 2])(L.Conv2D(8, 5, padding="same")(x)))
    y = L.Reshape((16, 16, 3))(L.Permute((1, 3, 2, 4, 5))(L.Reshape((8, 8, 2, 2, 3))(y)))
    return y + L.Resizing(16, 16, interpolation="bilinear")(x)


def wavenet(x):
    total = 0
    x = L.Conv1D(8, 1)(x)
    for i in range(3):
        h = L.Multiply()([L.Conv1D(8, 2, padding="causal", dilation_rate=2**i, activation="tanh")(x),
                          L.Conv1D(8, 2, padding="causal", dilation_rate=2**i, activation="sigmoid")(x)])
        total, x = total + h, x + L.Conv1D(8, 1)(h)
    return L.Conv1D(4, 1)(L.ReLU()(total))


def sound(x):
    x = L.MaxPooling1D(4)(L.Conv1D(8, 16, 4, activation="relu")(x))
    x = L.AveragePooling1D(2, padding="same")(L.SeparableConv1D(16, 3, activation="relu")(x))
    return L.Dense(6, activation="softmax")(L.Concatenate()([L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D()(x)]))


def ds_cnn(x):
    x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(16, (10, 4), 2, padding="same")(x)))
    for _ in range(2):
        x = L.ReLU(6.0)(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(x)))
        x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(16, 1)(x)))
    return L.Dense(12, activation="softmax")(L.Dropout(0.2)(L.Flatten()(L.AveragePooling2D((5, 5))(x))))


def regnet_block(x):
    y = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(16, 1)(x)))
    y = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(16, 3, padding="same", groups=4)(y)))
    g = L.Dense(16, activation="sigmoid")(L.Dense(4, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(y)))
    y = L.BatchNormalization()(L.Conv2D(16, 1)(L.Multiply()([y, g])))
    return L.ReLU()(L.Add()([L.Conv2D(16, 1)(x), y]))


def regnet(x):
    x = regnet_block(regnet_block(L.Conv2D(16, 3, 2, padding="same")(x)))
    return L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x))


def norms(x):
    x = L.GroupNormalization(2)(L.Conv2D(8, 3)(x))
    x = L.LayerNormalization(axis=[1, 2, 3])(L.Conv2D(8, 3, activation="swish")(x))
    x = L.RMSNormalization()(L.Conv2D(8, 1)(x))
    return L.UnitNormalization()(L.Flatten()(x))


def activations(x):
    kinds = ("elu", "selu", "softplus", "softsign", "swish", "gelu", "hard_sigmoid", "hard_silu", "mish", "exponential",
             "leaky_relu", "log_softmax", "relu6", "tanh", "sigmoid", "silu")
    return L.Concatenate()([L.Activation(kind)(L.Dense(4)(x)) for kind in kinds])


def merges(x):
    a, b = L.Dense(6)(x), L.Dense(6)(x)
    parts = [L.Add()([a, b]), L.Subtract()([a, b]), L.Multiply()([a, b]), L.Average()([a, b]), L.Maximum()([a, b]),
             L.Minimum()([a, b]), L.Dot(1)([a, b])]
    return L.Concatenate()(parts)


def moves(x):
    x = L.Cropping2D(((1, 0), (0, 1)))(L.ZeroPadding2D(((2, 1), (1, 2)))(x))
    x = L.Permute((2, 1, 3))(L.MaxPooling2D(3, 2, padding="same")(x))
    return L.Dense(4)(L.Flatten()(L.AveragePooling2D(2, 1, padding="same")(x)))


def several(x):
    x = L.Conv2D(8, 3, activation="relu")(x)
    return [L.Dense(3)(L.GlobalAveragePooling2D()(x)), L.Conv2D(2, 1, activation="sigmoid")(x)]


def recommender(x):
    e = L.Embedding(60, 8)(x)
    y = follow(L.Flatten()(e), L.Dense(16, activation="relu"), L.Dense(8, activation="relu"))
    return L.Dense(1, activation="sigmoid")(y)


IMAGE = (16, 16, 3)
NETWORKS = [
    KerasNetwork("lstm", sequence(lambda: LSTM(8))),
    KerasNetwork("lstm_tagger", tagger(lambda: LSTM(8, return_sequences=True))),
    KerasNetwork("lstm_backwards", sequence(lambda: LSTM(8, go_backwards=True))),
    KerasNetwork("lstm_unrolled", sequence(lambda: LSTM(8, unroll=True))),
    KerasNetwork("gru", sequence(lambda: GRU(8))),
    KerasNetwork("gru_tagger", tagger(lambda: GRU(8, return_sequences=True))),
    KerasNetwork("gru_reset_before", sequence(lambda: GRU(8, reset_after=False))),
    KerasNetwork("simple_rnn", sequence(lambda: SimpleRNN(8))),
    KerasNetwork("simple_rnn_relu", tagger(lambda: SimpleRNN(8, activation="relu", return_sequences=True))),
    KerasNetwork("bidirectional_lstm", sequence(lambda: L.Bidirectional(LSTM(8)))),
    KerasNetwork("bidirectional_gru",
                 tagger(lambda: L.Bidirectional(GRU(6, return_sequences=True), merge_mode="sum"))),
    KerasNetwork("long_lstm", sequence(lambda: LSTM(16), (60, 8))),
    KerasNetwork("stacked", net((12, 5), stacked)),
    KerasNetwork("lstm_autoencoder", net((10, 5), autoencoder)),
    KerasNetwork("video", net((6, 10, 10, 3), video)),
    KerasNetwork("conv_lstm", net((4, 8, 8, 2), lambda x: L.Dense(3)(L.Flatten()(ConvLSTM2D(4, 3)(x))))),
    KerasNetwork("speech", net((40, 10), speech)),
    KerasNetwork("text_lstm", text(lambda: LSTM(8)), ids=50),
    KerasNetwork("text_gru", text(lambda: L.Bidirectional(GRU(8))), ids=50),
    KerasNetwork("recommender", net((4,), recommender, "int32"), ids=60),
    KerasNetwork("transformer", net((10, 16), lambda x: L.Dense(4)(L.Flatten()(encoder_block(x))))),
    KerasNetwork("language", net((12,), language, "int32"), ids=40),
    KerasNetwork("vision_transformer", net(IMAGE, vision_transformer)),
    KerasNetwork("attention", net((6, 8), cross_attention)),
    KerasNetwork("unet", net(IMAGE, unet)),
    KerasNetwork("segmentation", net(IMAGE, segmentation)),
    KerasNetwork("generator", net((8,), generator)),
    KerasNetwork("super_resolution", net((8, 8, 3), super_resolution)),
    KerasNetwork("wavenet", net((24, 1), wavenet)),
    KerasNetwork("sound", net((400, 1), sound)),
    KerasNetwork("ds_cnn", net((49, 10, 1), ds_cnn)),
    KerasNetwork("regnet", net((32, 32, 3), regnet)),
    KerasNetwork("norms", net((10, 10, 3), norms)),
    KerasNetwork("activations", net((6,), activations)),
    KerasNetwork("merges", net((6,), merges)),
    KerasNetwork("moves", net((9, 8, 3), moves)),
    KerasNetwork("several", net(IMAGE, several)),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)

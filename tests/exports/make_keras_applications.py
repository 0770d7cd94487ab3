"""keras.applications as they are, on small images, random weights."""
from keras_networks import KerasNetwork, keras, make

apps = keras.applications


def app(builder, size, **options):
    options = {"weights": None, "classes": 10} | options
    return lambda: builder(input_tensor=keras.Input((size, size, 3), batch_size=1), **options)


NETWORKS = [
    KerasNetwork("mobilenet", app(apps.MobileNet, 64, alpha=0.25)),
    KerasNetwork("mobilenet_v2", app(apps.MobileNetV2, 64, alpha=0.35)),
    KerasNetwork("mobilenet_v3_small", app(apps.MobileNetV3Small, 64, alpha=0.75)),
    KerasNetwork("mobilenet_v3_large", app(apps.MobileNetV3Large, 64, alpha=0.75)),
    KerasNetwork("mobilenet_v3_minimal", app(apps.MobileNetV3Small, 64, minimalistic=True)),
    KerasNetwork("efficientnet_b0", app(apps.EfficientNetB0, 64)),
    KerasNetwork("efficientnet_v2_b0", app(apps.EfficientNetV2B0, 64)),
    KerasNetwork("nasnet_mobile", app(apps.NASNetMobile, 32)),
    KerasNetwork("densenet121", app(apps.DenseNet121, 32)),
    KerasNetwork("resnet50", app(apps.ResNet50, 32)),
    KerasNetwork("resnet50_v2", app(apps.ResNet50V2, 32)),
    KerasNetwork("inception_v3", app(apps.InceptionV3, 75)),
    KerasNetwork("xception", app(apps.Xception, 75)),
    KerasNetwork("vgg16", app(apps.VGG16, 32, include_top=False, pooling="avg")),
    KerasNetwork("convnext_tiny", app(apps.ConvNeXtTiny, 32)),
    KerasNetwork("efficientnet_b1", app(apps.EfficientNetB1, 32)),
    KerasNetwork("efficientnet_v2_b1", app(apps.EfficientNetV2B1, 32)),
    KerasNetwork("densenet169", app(apps.DenseNet169, 32)),
    KerasNetwork("vgg19", app(apps.VGG19, 32, include_top=False, pooling="avg")),
    KerasNetwork("inception_resnet_v2", app(apps.InceptionResNetV2, 75)),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)

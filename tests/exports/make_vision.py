"""torchvision's classifiers and segmentation, in sizes that are exported in seconds, with random weights."""
import torch
from torch import nn
from torchvision import models
from torchvision.models import convnext, efficientnet, maxvit, resnet, segmentation, swin_transformer, vgg

from networks import Network, image, make

FULL_IMAGE = {"x": {0: "batch", 2: "height", 3: "width"}}
BATCH = {"x": {0: "batch"}}


def narrow(classifier):
    """Replaces the classifier's linear layers: the last one gives 10 features, the others 32."""
    linear = [i for i, layer in enumerate(classifier) if isinstance(layer, nn.Linear)]
    width = classifier[linear[0]].in_features
    for i in linear:
        out = 10 if i == linear[-1] else 32
        classifier[i] = nn.Linear(width, out)
        width = out


def alexnet():
    network = models.AlexNet()
    narrow(network.classifier)
    return network


def vgg_net():
    network = vgg.VGG(vgg.make_layers([8, "M", 16, "M", 32, "M", 512], batch_norm=True), init_weights=False)
    narrow(network.classifier)
    return network


def efficient_net():
    settings, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.35, depth_mult=0.4)
    return models.EfficientNet(settings, dropout=0.2, last_channel=last, num_classes=10)


def efficient_net_v2():
    settings = [efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1),
                efficientnet.MBConvConfig(4, 3, 2, 16, 24, 2)]
    return models.EfficientNet(settings, dropout=0.2, last_channel=64, num_classes=10)


def conv_next():
    blocks = [convnext.CNBlockConfig(16, 32, 1), convnext.CNBlockConfig(32, 64, 1), convnext.CNBlockConfig(64, None, 1)]
    return models.ConvNeXt(blocks, num_classes=10)


def vit():
    return models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10)


def swin(version):
    parts = {}
    if version == 2:
        parts = {"block": swin_transformer.SwinTransformerBlockV2, "downsample_layer": swin_transformer.PatchMergingV2}
    return models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], num_classes=10, **parts)


def max_vit():
    return models.MaxVit((64, 64), 8, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10)


def bottlenecks(**options):
    return models.ResNet(resnet.Bottleneck, [1, 1, 1, 1], **options)


class Scores(nn.Module):
    """The map of a segmentation network, which gives a dictionary."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def segmenter(build, **options):
    return Scores(build(weights=None, weights_backbone=None, num_classes=4, **options))


def fcn():
    backbone = bottlenecks(replace_stride_with_dilation=[False, True, True])
    return Scores(segmentation.fcn._fcn_resnet(backbone, 4, None))


def twice(channels, out):
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                         nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):
    """up: bilinear, corners, nearest, transposed, shuffle."""

    def __init__(self, up):
        super().__init__()
        widths = [8, 16, 32]
        self.down = nn.ModuleList(twice(i, o) for i, o in zip([3, *widths], widths))
        self.up = nn.ModuleList(self.upsampling(up, i, o) for i, o in zip(widths[:0:-1], widths[-2::-1]))
        self.merge = nn.ModuleList(twice(2 * o, o) for o in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def upsampling(up, channels, out):
        if up == "transposed":
            return nn.ConvTranspose2d(channels, out, 2, stride=2)
        if up == "shuffle":
            return nn.Sequential(nn.Conv2d(channels, 4 * out, 1), nn.PixelShuffle(2))
        kind = nn.Upsample(scale_factor=2, mode="nearest")
        if up != "nearest":
            kind = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=up == "corners")
        return nn.Sequential(kind, nn.Conv2d(channels, out, 1))

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


def classifier(name, build, size=64, **options):
    return Network(name, build, [image(size)], **options)


NETWORKS = [
    classifier("alexnet", alexnet, 224),
    classifier("vgg", vgg_net, 56, open_axes=BATCH),
    classifier("resnet", lambda: models.ResNet(resnet.BasicBlock, [1, 1, 1, 1], 10), half=True, open_axes=FULL_IMAGE),
    classifier("resnext", lambda: bottlenecks(groups=32, width_per_group=4)),
    classifier("wide_resnet", lambda: bottlenecks(width_per_group=128)),
    classifier("squeezenet", lambda: models.squeezenet1_1(num_classes=10)),
    classifier("densenet", lambda: models.DenseNet(8, (2, 2, 2, 2), 16, num_classes=10), half=True),
    classifier("googlenet", lambda: models.GoogLeNet(10, aux_logits=False, init_weights=False, transform_input=True)),
    classifier("inception", lambda: models.Inception3(10, aux_logits=False, init_weights=False), 96),
    classifier("mobilenet_v2", lambda: models.mobilenet_v2(width_mult=0.25), half=True, open_axes=FULL_IMAGE),
    classifier("mobilenet_v3_small", lambda: models.mobilenet_v3_small(width_mult=0.5), half=True),
    classifier("mobilenet_v3_large", lambda: models.mobilenet_v3_large(width_mult=0.5), open_axes=FULL_IMAGE),
    classifier("mnasnet", lambda: models.mnasnet0_5(num_classes=10)),
    classifier("shufflenet", lambda: models.shufflenet_v2_x0_5(num_classes=10), open_axes=BATCH),
    classifier("efficientnet", efficient_net, half=True),
    classifier("efficientnet_v2", efficient_net_v2),
    classifier("regnet_x", lambda: models.regnet_x_400mf(num_classes=10)),
    classifier("regnet_y", lambda: models.regnet_y_400mf(num_classes=10)),
    classifier("convnext", conv_next, half=True, open_axes=FULL_IMAGE),
    classifier("vit", vit, 32, half=True, open_axes=BATCH),
    classifier("swin", lambda: swin(1), 32, half=True),
    classifier("swin_v2", lambda: swin(2), 32),
    classifier("maxvit", max_vit),
    classifier("lraspp", lambda: segmenter(segmentation.lraspp_mobilenet_v3_large), open_axes=FULL_IMAGE),
    classifier("deeplabv3", lambda: segmenter(segmentation.deeplabv3_mobilenet_v3_large), open_axes=FULL_IMAGE),
    classifier("fcn", fcn),
    classifier("unet_bilinear", lambda: UNet("bilinear"), half=True, open_axes=FULL_IMAGE),
    classifier("unet_corners", lambda: UNet("corners")),
    classifier("unet_nearest", lambda: UNet("nearest"), open_axes=FULL_IMAGE),
    classifier("unet_transposed", lambda: UNet("transposed"), half=True, open_axes=FULL_IMAGE),
    classifier("unet_shuffle", lambda: UNet("shuffle"), half=True, open_axes=FULL_IMAGE),
]

if __name__ == "__main__":
    make(NETWORKS, __doc__)

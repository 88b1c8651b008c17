"""The architectures of torchvision and timm that torch_zoo.py compares: few layers of each kind, and inputs at any batch, height and width."""

import functools

import timm
import torch
from torchvision import models

import zoo_models

CLASSES = 10
# Batch, height and width. Images of one pixel are among them; PyTorch itself refuses them where a window is larger.
OPEN = [(0, 64, 64), (1, 1, 1), (1, 64, 64), (2, 64, 96), (3, 75, 47), (1, 33, 128), (4, 96, 64), (5, 40, 40)]
# Images of the size that the positions are made for.
BATCHES = [(0,), (1,), (2,), (3,), (4,), (5,), (7,), (9,)]


def square(batch, size):
    return zoo_models.picture(batch, size, size)


def sized(size):
    """Images of one size, and an open batch."""
    return zoo_models.Kind(functools.partial(square, size=size), {"pixel_values": {0: zoo_models.BATCH}}, ((2,), BATCHES))


ANY = zoo_models.Kind(zoo_models.picture, zoo_models.IMAGE.open_dims, ((2, 64, 96), OPEN))
# Five halvings leave nothing of 1 pixel, and alexnet's windows nothing of less than 63.
LARGE = zoo_models.Kind(zoo_models.picture, zoo_models.IMAGE.open_dims, ((2, 96, 128), [
    (0, 64, 64), (1, 64, 64), (1, 65, 63), (2, 64, 96), (3, 75, 70), (1, 64, 128), (4, 96, 64), (1, 1, 1)]))  # fmt: skip
SIZE = 32


def convnext(block):
    settings = [models.convnext.CNBlockConfig(16, 32, 2), models.convnext.CNBlockConfig(32, None, 2)]
    return models.ConvNeXt(settings, num_classes=CLASSES, layer_scale=block)


def of_torchvision():
    one = functools.partial
    transformer = dict(num_classes=CLASSES)
    windows = dict(patch_size=[2, 2], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], **transformer)
    return {
        "alexnet": (one(models.alexnet, num_classes=CLASSES), LARGE),
        "vgg11_bn": (one(models.vgg11_bn, num_classes=CLASSES), LARGE),
        "resnet18": (one(models.resnet18, num_classes=CLASSES), ANY),
        "resnext": (one(models.ResNet, models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=CLASSES, groups=8, width_per_group=4), ANY),
        "densenet": (one(models.DenseNet, 8, (2, 3, 2), 16, num_classes=CLASSES), ANY),
        "squeezenet1_1": (one(models.squeezenet1_1, num_classes=CLASSES), ANY),
        "googlenet": (one(models.googlenet, num_classes=CLASSES, aux_logits=False, init_weights=False), LARGE),
        "mobilenet_v2": (one(models.mobilenet_v2, num_classes=CLASSES, width_mult=0.5), ANY),
        "mobilenet_v3_small": (one(models.mobilenet_v3_small, num_classes=CLASSES), ANY),
        "mnasnet0_5": (one(models.mnasnet0_5, num_classes=CLASSES), ANY),
        "shufflenet_v2_x0_5": (one(models.shufflenet_v2_x0_5, num_classes=CLASSES), ANY),
        "efficientnet_b0": (one(models.efficientnet_b0, num_classes=CLASSES), ANY),
        "regnet_y_400mf": (one(models.regnet_y_400mf, num_classes=CLASSES), ANY),
        "convnext": (one(convnext, 0.5), ANY),
        "vit": (one(models.VisionTransformer, SIZE, 8, 2, 4, 32, 64, **transformer), sized(SIZE)),
        "swin": (one(models.SwinTransformer, **windows), ANY),
        "swin_v2": (one(models.SwinTransformer, block=models.swin_transformer.SwinTransformerBlockV2,
                        downsample_layer=models.swin_transformer.PatchMergingV2, **windows), ANY),
        "maxvit": (one(models.MaxVit, (64, 64), 16, 4, [16, 32], [1, 1], 16, 0.0, **transformer), sized(64)),
    }  # fmt: skip


def of_timm():
    # Patches of 8 instead of 16 or 32, so that the small image has several.
    patches = dict(img_size=SIZE, patch_size=8, depth=2)
    mixer = dict(img_size=SIZE)
    names = {
        "resnet18": {},
        "seresnet18": {},
        "resnetv2_50": dict(layers=[1, 1, 1, 1]),
        "densenet121": dict(growth_rate=8, block_config=(2, 2, 2, 2)),
        "efficientnet_lite0": {},
        "mobilenetv3_small_050": {},
        "ghostnet_050": {},
        "repvgg_a0": {},
        "regnetx_002": {},
        "convnextv2_atto": {},
        "poolformer_s12": {},
        "nf_regnet_b0": {},
        "vit_tiny_patch16_224": patches,
        "deit_tiny_distilled_patch16_224": patches,
        "beit_base_patch16_224": dict(patches, embed_dim=96, num_heads=4),
        "mixer_s32_224": dict(img_size=64),
        "gmlp_s16_224": mixer,
        "resmlp_12_224": mixer,
        "cait_xxs24_224": patches,
        "xcit_nano_12_p16_224": dict(img_size=64, depth=2),
        "pit_ti_224": dict(img_size=64, depth=[1, 1, 1]),
        "swin_tiny_patch4_window7_224": dict(img_size=64, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4)),
        "levit_128s": dict(img_size=128),
        "mobilevit_xxs": {},
    }
    made = {}
    for name, arguments in names.items():
        # MobileViT takes images of any size, and scales those that its patches do not divide by a factor that is no dim.
        size = 64 if name == "mobilevit_xxs" else arguments.get("img_size")
        kind = sized(size) if size else ANY
        made[name] = (functools.partial(timm.create_model, name, pretrained=False, num_classes=CLASSES, **arguments), kind)
    return made


#: Name: what makes the model, and its inputs.
MODELS = {f"torchvision {name}": row for name, row in of_torchvision().items()} | {f"timm {name}": row for name, row in of_timm().items()}


class Classifier(torch.nn.Module):
    """A model of one image tensor, called by the name that zoo_models.py gives it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        found = self.model(pixel_values)
        return found if isinstance(found, tuple) else (found,)


def build(name):
    torch.manual_seed(1)
    return Classifier(zoo_models.randomized(MODELS[name][0]()))

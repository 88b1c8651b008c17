"""Models of images and sound: ResNet-like, a vision transformer, the encoder of Whisper."""

import torch
from layers import Block
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """Two convolutions beside a shortcut, with batch normalization."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride=stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Classes of images of any size, by a mean over what is left of the image."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.stages = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        x = torch.relu(self.norm(self.stem(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        return self.head(self.stages(x).mean(dim=(2, 3)))


class VisionTransformer(nn.Module):
    """Patches of 4 by 4, positions by row and by column: height and width are free."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.rows = nn.Embedding(16, 16)
        self.columns = nn.Embedding(16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.blocks = nn.ModuleList(Block(16, 2, functional.gelu) for _ in range(2))
        self.norm = nn.LayerNorm(16)

    def forward(self, images):
        x = self.patches(images)
        batch, width, high, wide = x.shape
        places = self.rows(torch.arange(high))[:, None] + self.columns(torch.arange(wide))[None, :]
        x = (x.permute(0, 2, 3, 1) + places).reshape(batch, high * wide, width)
        x = torch.cat((self.token.expand(batch, 1, width), x), dim=1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])


class Whisper(nn.Module):
    """Two convolutions over time, the second of which halves it, then a transformer with sinusoidal positions."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(8, 16, 3, padding=1)
        self.conv2 = nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(16, 2, functional.gelu) for _ in range(2))
        self.norm = nn.LayerNorm(16)

    def forward(self, mel):
        x = functional.gelu(self.conv1(mel))
        x = functional.gelu(self.conv2(x)).transpose(1, 2)
        steps = torch.arange(x.shape[1], dtype=torch.float32)[:, None]
        angles = steps * torch.exp(torch.arange(8, dtype=torch.float32) * -1.2)[None, :]
        x = x + torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

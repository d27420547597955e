"""Fills ``TORCHINDUCTOR_CACHE_DIR`` by running two small models on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """A transformer block with a gated feed-forward part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        h = self.between(x)
        out: Tensor = x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))
        return out


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.Softplus(),
    )


def main() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        text = torch.compile(nn.Sequential(*(Block(64, 4) for _ in range(3))), dynamic=False)
        for length in (8, 24):
            text(torch.randn(1, length, 64))
        image = torch.compile(convolutions(), dynamic=False)
        for size in (16, 32):
            image(torch.randn(1, 3, size, size))


if __name__ == "__main__":
    main()

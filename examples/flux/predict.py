"""A FLUX image model in small: the real architecture with random weights, quick enough for a CPU."""

import hashlib
import itertools
import math
import tempfile

import torch
from cog import BasePredictor, Input, Path
from diffusers import FluxTransformer2DModel
from PIL import Image
from torch._dynamo import mark_dynamic

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PATCH = 16  # pixels per side of an image token, as in FLUX: 8 (autoencoder) times 2 (packing)
TEXT_TOKENS = 32
CHANNELS = 16
EMBEDDING = 64
CONFIG = {
    "num_layers": 2,
    "num_single_layers": 4,
    "in_channels": CHANNELS,
    "num_attention_heads": 4,
    "attention_head_dim": 32,
    "axes_dims_rope": (8, 12, 12),
    "joint_attention_dim": EMBEDDING,
    "pooled_projection_dim": EMBEDDING,
}


class Predictor(BasePredictor):
    def setup(self) -> None:
        """Build the model, always with the same weights; it is compiled when first called."""
        torch.manual_seed(0)
        self.transformer = torch.compile(FluxTransformer2DModel(**CONFIG).eval().to(DEVICE))
        self.decoder = noise(1, CHANNELS, PATCH * PATCH * 3) / math.sqrt(CHANNELS)

    def predict(
        self,
        prompt: str = Input(description="What to paint"),
        width: int = Input(description="Pixels, a multiple of 16", default=256, ge=64, le=1024),
        height: int = Input(description="Pixels, a multiple of 16", default=256, ge=64, le=1024),
        steps: int = Input(description="Denoising steps", default=4, ge=1, le=50),
        seed: int = Input(description="Which noise to start from", default=0),
    ) -> Path:
        """Paint a picture, and return it as a PNG file."""
        rows, columns = height // PATCH, width // PATCH
        with torch.no_grad():
            start = noise(seed, 1, rows * columns, CHANNELS)
            latents = self.denoise(prompt, token_ids(rows, columns), start, steps)
            pixels = decode(latents[0] @ self.decoder, rows, columns)
        file = Path(tempfile.mkdtemp()) / "picture.png"
        Image.fromarray(pixels.cpu().numpy()).save(file)
        return file

    def denoise(
        self, prompt: str, image_ids: torch.Tensor, latents: torch.Tensor, steps: int
    ) -> torch.Tensor:
        """Follow the flow from noise to picture by Euler steps; latents have shape (1, tokens, CHANNELS)."""
        words, summary = embed(prompt)
        # Pictures differ in their number of tokens. Told so, torch.compile makes one graph for all of them;
        # untold, it compiles for the first size, and once more, for any size, when the second comes.
        mark_dynamic(latents, 1)
        mark_dynamic(image_ids, 0)
        sigmas = torch.linspace(1, 0, steps + 1, device=DEVICE)
        for sigma, next_sigma in itertools.pairwise(sigmas):
            (velocity,) = self.transformer(
                hidden_states=latents,
                encoder_hidden_states=words,
                pooled_projections=summary,
                timestep=sigma.reshape(1),
                img_ids=image_ids,
                txt_ids=torch.zeros(TEXT_TOKENS, 3, device=DEVICE),
                return_dict=False,
            )
            latents = latents + (next_sigma - sigma) * velocity
        return latents


def noise(seed: int, *shape: int) -> torch.Tensor:
    """Draw on the CPU, so that every device starts from the same numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def embed(prompt: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Stand in for text encoders: embeddings (1, TEXT_TOKENS, EMBEDDING) and (1, EMBEDDING) from a hash."""
    seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:7], "big")
    return noise(seed, 1, TEXT_TOKENS, EMBEDDING), noise(seed + 1, 1, EMBEDDING)


def token_ids(rows: int, columns: int) -> torch.Tensor:
    """Where each image token stands: (0, row, column), shape (rows * columns, 3)."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([torch.zeros_like(row), row, column], dim=-1).reshape(-1, 3).float().to(DEVICE)


def decode(patches: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Stand in for an autoencoder: patches (tokens, PATCH * PATCH * 3) become pixels (height, width, 3)."""
    grid = patches.reshape(rows, columns, PATCH, PATCH, 3).permute(0, 2, 1, 3, 4)
    return (grid.reshape(rows * PATCH, columns * PATCH, 3).sigmoid() * 255).round().to(torch.uint8)

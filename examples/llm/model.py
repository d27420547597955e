"""A Llama in small: the real architecture with random weights, quick enough for a CPU."""

import functools

import torch
from torch._dynamo import mark_dynamic
from transformers import LlamaConfig, LlamaForCausalLM

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCABULARY = 1000
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=1024,
)


@functools.cache
def model() -> torch.nn.Module:
    """Build the model once, always with the same weights, and hand it to torch.compile."""
    torch.manual_seed(0)
    return torch.compile(LlamaForCausalLM(CONFIG).eval().to(DEVICE))


def generate(length: int, new_tokens: int = 4) -> dict[str, torch.Tensor]:
    """Continue a prompt of ``length`` tokens, always with the likeliest one.

    Returns the tokens, shape (1, length + new_tokens), and the logits of the last one, shape (1, VOCABULARY).
    """
    tokens = torch.arange(length, device=DEVICE).remainder(VOCABULARY).reshape(1, length)
    with torch.no_grad():
        for _ in range(new_tokens):
            # Every text has another length. Told so, torch.compile makes one graph that serves them all.
            mark_dynamic(tokens, 1)
            logits = model()(input_ids=tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return {"tokens": tokens, "logits": logits}

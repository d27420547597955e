"""A program that uses the model of ``projects.NETWORK``, as a server would."""

# Prints, as JSON, the answers for two batch sizes with and without torch.compile.
CLIENT = """
import json

import model
import torch

compiled, eager = [], []
for batch in (3, 9):
    compiled += model.answer(batch).flatten().tolist()
    with torch.no_grad():
        eager += model.layers(model.question(batch)).flatten().tolist()
print(json.dumps({"compiled": compiled, "eager": eager, "threads": torch.get_num_threads()}))
"""

"""The images that the tests run, made from the torch image on top of what a Dockerfile adds in seconds."""

from __future__ import annotations

import json
from pathlib import Path

from integration.docker.daemon import DockerService

TORCH = "glowplug-test/torch:1"
COG = "glowplug-test/cog:1"
APP = "glowplug-test/app:1"

PREDICTOR = '''"""What a user of Cog writes."""

import torch
from cog import BasePredictor, Input


class Predictor(BasePredictor):
    def setup(self):
        torch.manual_seed(0)
        self.weight = torch.randn(8, 8)
        self.model = torch.compile(lambda x: x @ self.weight)

    def predict(self, size: int = Input(description="rows", default=8, ge=1, le=64)) -> float:
        return float(self.model(torch.ones(size, 8)).sum())
'''

# As `cog build` writes them (docs of Cog, "Image labels"); the schema is cut down to what Cog's server validates.
_SIZE = {
    "type": "integer",
    "title": "Size",
    "description": "rows",
    "default": 8,
    "minimum": 1,
    "maximum": 64,
    "x-order": 0,
}
OPENAPI_SCHEMA = {
    "openapi": "3.0.2",
    "info": {"title": "Cog", "version": "0.1.0"},
    "paths": {},
    "components": {
        "schemas": {
            "Input": {"type": "object", "title": "Input", "properties": {"size": _SIZE}},
            "Output": {"type": "number", "title": "Output"},
        }
    },
}
CONFIG = {"build": {"python_version": "3.11"}, "predict": "predict.py:Predictor"}

_COG_DOCKERFILE = """FROM {base}
COPY . /src
ENV COG_PREDICT_TYPE_STUB=predict.py:Predictor NVIDIA_DRIVER_CAPABILITIES=all
LABEL {labels}
EXPOSE 5000
ENTRYPOINT ["/usr/bin/tini","--"]
CMD ["python","-m","cog.server.http"]
"""

# An image of another kind: a user of its own, an entrypoint that sets something, no init.
_APP_DOCKERFILE = """FROM {base}
COPY entrypoint.sh /entrypoint.sh
USER app
WORKDIR /home/app
ENV FROM_IMAGE=yes
ENTRYPOINT ["/bin/sh","/entrypoint.sh"]
CMD ["python","-c","print('the image has its own way')"]
"""
_ENTRYPOINT = 'export FROM_ENTRYPOINT=yes\nexec "$@"\n'


def add_cog_image(service: DockerService, folder: Path) -> None:
    """Make an image as ``cog build`` does: labels, tini, and Cog's own server as its command."""
    (folder / ".cog").mkdir(parents=True)
    (folder / ".cog" / "openapi_schema.json").write_text(json.dumps(OPENAPI_SCHEMA))
    (folder / "predict.py").write_text(PREDICTOR)
    (folder / "cog.yaml").write_text("build: {python_version: '3.11'}\nrun: predict.py:Predictor\n")
    labels = {
        "run.cog.version": "0.23.1",
        "run.cog.has_init": "true",
        "run.cog.config": json.dumps(CONFIG),
        "run.cog.openapi_schema": json.dumps(OPENAPI_SCHEMA),
        "run.cog.pip_freeze": "torch==2.13.0",
    }
    written = " ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    service.build(COG, _COG_DOCKERFILE.format(base=TORCH, labels=written), folder)


def add_app_image(service: DockerService, folder: Path) -> None:
    """Make an image with a USER, a WORKDIR, an ENTRYPOINT and a CMD of its own."""
    folder.mkdir()
    (folder / "entrypoint.sh").write_text(_ENTRYPOINT)
    service.build(APP, _APP_DOCKERFILE.format(base=TORCH), folder)

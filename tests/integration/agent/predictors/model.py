"""Predictors of every kind, written as both lines of Cog understand them."""

# ruff: noqa: B008, C408, FBT001, PLC0415, PLR0917, UP006, UP035, UP045
import json
from typing import Any, List, Optional

import neighbour
from cog import BasePredictor, Input, Path, Secret


class Predictor(BasePredictor):
    def setup(self):
        self.greeting = neighbour.GREETING

    def predict(
        self,
        text: str = Input(description="any text", min_length=1),
        count: int = Input(default=2, ge=1, le=5),
        scale: float = Input(default=1),
        bias: float = 2,
        flag: bool = Input(default=False),
        style: str = Input(default="plain", choices=["plain", "fancy"]),
        names: List[str] = Input(default=["a"]),
        image: Optional[Path] = Input(default=None, description="a picture"),
        note: Optional[str] = Input(description="may be left out"),
        token: Optional[Secret] = Input(default=None),
    ) -> str:
        seen = dict(
            text=text, count=count, scale=scale, bias=bias, flag=flag, style=style, names=names, note=note
        )
        seen["image"] = image and [type(image).__name__, image.read_text()]
        seen["token"] = token and token.get_secret_value()
        return json.dumps([self.greeting, seen])


class Awaiting(BasePredictor):
    async def setup(self):
        self.greeting = "hello"

    async def predict(self, text: str) -> str:
        return self.greeting + text


class Yielding(BasePredictor):
    def predict(self, text: str) -> Any:
        yield from text


class YieldingAsync(BasePredictor):
    async def predict(self, text: str) -> Any:
        for letter in text:
            yield letter


class Weighted(BasePredictor):
    def setup(self, weights: Optional[str] = None):
        self.weights = weights

    def predict(self) -> str:
        return str(self.weights)


class Measuring(BasePredictor):
    def predict(self) -> str:
        try:
            from cog import current_scope
        except ImportError:
            self.record_metric("tokens", 3)
        else:
            current_scope().record_metric("tokens", 3)
        return "measured"


def paint(text: str, n: int = Input(default=2)) -> str:
    return text * n

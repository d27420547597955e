"""A GPU that the model will see, whoever made it."""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """One GPU.

    Attributes:
        name: what ``torch.cuda.get_device_name`` says of it; a MIG slice's name ends in its profile.
        arch: ``sm_90`` or ``gfx942``.
    """

    name: str
    arch: str


class Gpus(NamedTuple):
    """The visible GPUs, the model's default device first.

    Attributes:
        gpus: what the model can use.
        driver: the driver's version, empty without one.
        problem: why there are none although there should be some; empty when there is nothing to say.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    problem: str = ""

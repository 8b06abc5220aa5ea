"""``Grayscale`` and ``RandomGrayscale``."""

from __future__ import annotations

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Grayscale, Op, RandomGrayscale
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, kernel_api, plain_tensor, refuse_chance_container

__all__ = ["RULES"]


def _grayscale(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    wanted = attributes["num_output_channels"]
    if wanted not in (1, 3):
        raise UnsupportedError(f"num_output_channels must be 1 or 3, got {wanted!r}")
    channels = 1 if wanted == 1 else 3
    if spec.channels == 1 and channels == 1:
        return ()  # a copy, and v1 keeps the class of a copied tv_tensors.Image
    if spec.channels == 1 and spec.container != "pil" and api == "v1":
        return plain_tensor((), spec, api)  # v1 expands a grey tensor to its own shape: it stays at one channel
    return plain_tensor((Grayscale(channels, kernel_api(spec, api)),), spec, api)


def _random_grayscale(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0 or spec.channels == 1:
        return ()  # the luma of a grey image is a copy of it
    if p < 1.0:
        refuse_chance_container("RandomGrayscale", "the draw decides against it", spec, api)
    return plain_tensor((RandomGrayscale(p, kernel_api(spec, api)),), spec, api)


RULES = (
    Rule(v1.Grayscale, "v1", _grayscale, frozenset({"num_output_channels"})),
    Rule(v2.Grayscale, "v2", _grayscale, frozenset({"num_output_channels"})),
    Rule(v1.RandomGrayscale, "v1", _random_grayscale, frozenset({"p"})),
    Rule(v2.RandomGrayscale, "v2", _random_grayscale, frozenset({"p"})),
)

"""What ``gpufeed verify`` found, immutable, and its JSON form."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpufeed import result_files
from gpufeed.errors import ArgumentError

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "Budget",
    "DrawCheck",
    "LeftOutSample",
    "OpCheck",
    "Spread",
    "Verification",
    "WholeCheck",
    "Worst",
    "check_json_target",
    "from_json",
    "to_json",
    "write_json",
]

SCHEMA = "gpufeed.verify"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Absolute differences, in 1/255 of full intensity.

    Attributes:
        num_values: how many values were compared.
        largest_255: the largest difference.
        mean_255: the mean difference.
        p999_255: 99.9 % of the differences are at most this, to 1/16.
        share_above_1: the share of values, in [0, 1], that are more than 1/255 off.
        share_unequal: the share that is off at all.
        share_beyond: the share beyond the ``usual_255`` of the op's bound.
    """

    num_values: int
    largest_255: float
    mean_255: float
    p999_255: float
    share_above_1: float
    share_unequal: float
    share_beyond: float


@dataclass(frozen=True, slots=True)
class Worst:
    """The sample that is farthest off.

    Attributes:
        index: in the list of chosen files.
        file: its path.
        largest_255: its largest difference. [Unit: 1/255]
        mean_255: its mean difference. [Unit: 1/255]
    """

    index: int
    file: str
    largest_255: float
    mean_255: float


@dataclass(frozen=True, slots=True)
class OpCheck:
    """One op on torchvision's own input, with the same draws, over all samples that go through it.

    Attributes:
        place: its position in the plan, ``3.0.1`` for op 1 of branch 0 of the op at 3; ``decode`` for the decoder.
        op: the op in words.
        short: the same without what is the usual value.
        name: its class.
        domain: of its input.
        holds_ops: whether it only decides about the ops inside, which are listed behind it; nothing is measured then.
        bound_kind: ``exact`` or ``bounded``.
        bound_words: the bound in words; empty where exact.
        bound_largest_255: no value may be farther off; ``None``: no such promise.
        bound_usual_255: all but ``bound_share_beyond`` of the values must be within.
        bound_share_beyond: see there.
        bound_measured: whether the bound was measured when it was declared, or is what is expected.
        num_samples: how many samples went through it.
        spread: the differences; ``None`` where no sample did.
        border: those of the outermost ring of pixels, for ops that resample; else ``None``.
        interior: those of all other pixels, likewise.
        passed_on: what its own differences have become at the plan's end, where torchvision does the rest; ``None``
            where there are none.
        worst: the sample farthest off.
        exceeded: what is wrong, in words; empty where the bound holds.
        number: that of the transform it comes from, as ``gpufeed explain`` numbers them: ``2.0`` for the first one in
            the third; several ops may have one. Empty for the decoder, and where the transform is no list of others.
        num_beyond_allowed: how many of the values may be beyond ``bound_usual_255``.
    """

    place: str
    op: str
    short: str
    name: str
    domain: str
    holds_ops: bool
    bound_kind: str
    bound_words: str
    bound_largest_255: float | None
    bound_usual_255: float
    bound_share_beyond: float
    bound_measured: bool
    num_samples: int = 0
    spread: Spread | None = None
    border: Spread | None = None
    interior: Spread | None = None
    passed_on: Spread | None = None
    worst: Worst | None = None
    exceeded: str = ""
    number: str = ""
    num_beyond_allowed: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What the whole may be off: bounds of ops don't compose, so this is a rule, not a proof; see ``verify_whole``.

    Attributes:
        mean_255: for the mean difference. [Unit: 1/255]
        p999_255: for the 99.9th percentile. [Unit: 1/255]
        share_above_1: for the share of values more than 1/255 off.
    """

    mean_255: float
    p999_255: float
    share_above_1: float


@dataclass(frozen=True, slots=True)
class WholeCheck:
    """What the loader yields against what the transform object makes of the same files, with the same draws.

    Attributes:
        num_samples: compared.
        spread: the differences, in 1/255 of the intensity before any ``Normalize``.
        budget: what they may be.
        worst: the sample farthest off, by its mean.
        shape: of one sample, (C, H, W), or (k, C, H, W) for a tuple of k; where sizes vary the first one's.
        dtype: torch's name without ``torch.``.
        num_shape_mismatches: samples of another shape or dtype than torchvision's.
        num_unlike_ops: samples where the loader's values are not, bit for bit, those of the plan's ops one after the
            other; ``None`` where it isn't asked: on CUDA several ops become one.
        num_unlike_plan: samples where torchvision itself ends elsewhere by the plan's functions than by the transform
            object: a wrong translation.
        exceeded: what is wrong, in words, one sentence each.
    """

    num_samples: int
    spread: Spread
    budget: Budget
    worst: Worst | None
    shape: tuple[int, ...]
    dtype: str
    num_shape_mismatches: int
    num_unlike_ops: int | None
    num_unlike_plan: int
    exceeded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawCheck:
    """One quantity that is drawn, against torchvision's own distribution of it.

    Attributes:
        place: the leaf's in the transform.
        name: the leaf's class.
        quantity: what is compared.
        ours: its mean over gpufeed's draws.
        theirs: its mean over torchvision's, or what its own ``p`` says.
        num_ours: how many draws of gpufeed's.
        num_theirs: how many of torchvision's; 0 where its distribution is known without.
        statistic: the distance, in terms of ``test``.
        limit: what it may be: chance alone exceeds all limits of a run together in fewer than 1 of 10,000 runs.
        test: ``KS``: Kolmogorov and Smirnov's largest distance of the distribution functions; ``rate``: the distance
            between the shares.
    """

    place: str
    name: str
    quantity: str
    ours: float
    theirs: float
    num_ours: int
    num_theirs: int
    statistic: float
    limit: float
    test: str

    @property
    def holds(self) -> bool:
        """Whether the distance is within its limit."""
        return self.statistic <= self.limit


@dataclass(frozen=True, slots=True)
class LeftOutSample:
    """A chosen file that could not be verified: gpufeed refuses it, and says so when it is loaded."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """One run of ``gpufeed verify``.

    Attributes:
        data: what was verified on, in words.
        root: the image folder.
        num_files: files below it.
        num_chosen: how many of them were chosen.
        transform: the transform's reference.
        transform_text: the transform as it prints itself.
        plan: what it became.
        fingerprint: of the plan.
        device: where the ops ran.
        device_name: the GPU's model; empty for the CPU.
        seed: of the draws.
        elapsed_s: what it took. [Unit: second]
        interrupted: whether the user stopped it early.
        ops: the decoder and every op.
        whole: the whole; ``None`` where no sample got so far.
        draws: the distributions.
        undrawn: leaves that draw and whose distribution there is no way to compare yet.
        left_out: files that could not be verified.
        pictures: side-by-side pictures that were saved.
        environment: versions and machine.
    """

    data: str
    root: str
    num_files: int
    num_chosen: int
    transform: str
    transform_text: str
    plan: str
    fingerprint: str
    device: str
    device_name: str
    seed: int
    elapsed_s: float
    interrupted: bool
    ops: tuple[OpCheck, ...]
    whole: WholeCheck | None
    draws: tuple[DrawCheck, ...] = ()
    undrawn: tuple[str, ...] = ()
    left_out: tuple[LeftOutSample, ...] = ()
    pictures: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def failures(self) -> tuple[str, ...]:
        """What exceeds its bound, one sentence each."""
        found = [check.exceeded for check in self.ops if check.exceeded]
        found += self.whole.exceeded if self.whole is not None else ()
        found += [_not_drawn_alike(check) for check in self.draws if not check.holds]
        return tuple(found)


_TESTS = {"KS": "Kolmogorov and Smirnov's distance", "rate": "difference of the rates"}


def _not_drawn_alike(check: DrawCheck) -> str:
    return (
        f"{check.place} ({check.name}) draws {check.quantity} otherwise than torchvision: {check.ours:.4g} on average, "
        f"torchvision {check.theirs:.4g}; their distributions are {check.statistic:.3g} apart ({_TESTS[check.test]}), "
        f"and {check.limit:.3g} is allowed"
    )


def to_json(verification: Verification) -> str:
    """The verification as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        **asdict(verification),
        "failures": list(verification.failures),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Verification:
    """The verification from `to_json`'s text.

    Raises:
        ArgumentError: the text is no such JSON, or of another schema version.
    """
    document = result_files.result_of(text, SCHEMA)
    if document is None:
        raise ArgumentError("this is not a result of gpufeed verify")
    if document["schema_version"] != SCHEMA_VERSION:
        raise ArgumentError(
            f"schema_version must be {SCHEMA_VERSION}, got {document['schema_version']!r}; "
            "use the gpufeed version that wrote it"
        )
    if document.get("kind") == "pipeline":
        raise ArgumentError("this is the result of a pipeline, which has no ops to read here; read it as JSON")
    values = {key: value for key, value in document.items() if key not in ("schema", "schema_version", "failures")}
    values["ops"] = tuple(_op(value) for value in values["ops"])
    values["whole"] = None if values["whole"] is None else _whole(values["whole"])
    values["draws"] = tuple(DrawCheck(**value) for value in values["draws"])
    values["undrawn"] = tuple(values["undrawn"])
    values["pictures"] = tuple(values["pictures"])
    values["left_out"] = tuple(LeftOutSample(**value) for value in values["left_out"])
    return Verification(**values)


def _op(value: dict[str, Any]) -> OpCheck:
    parts: dict[str, Any] = {name: _spread(value[name]) for name in ("spread", "border", "interior", "passed_on")}
    parts["worst"] = _worst(value["worst"])
    return OpCheck(**{**value, **parts})


def _whole(value: dict[str, Any]) -> WholeCheck:
    parts: dict[str, Any] = {
        "spread": _spread(value["spread"]),
        "budget": Budget(**value["budget"]),
        "worst": _worst(value["worst"]),
        "shape": tuple(value["shape"]),
        "exceeded": tuple(value["exceeded"]),
    }
    return WholeCheck(**{**value, **parts})


def _spread(value: dict[str, Any] | None) -> Spread | None:
    return None if value is None else Spread(**value)


def _worst(value: dict[str, Any] | None) -> Worst | None:
    return None if value is None else Worst(**value)


def check_json_target(path: Path) -> None:
    """Refuse a file that the result must not or can't be written to; see `gpufeed.result_files.check_target`."""
    result_files.check_target(path, SCHEMA)


def write_json(verification: Verification, path: Path) -> None:
    """Write the verification whole or not at all; see `gpufeed.result_files.write`."""
    result_files.write(to_json(verification), path, SCHEMA)

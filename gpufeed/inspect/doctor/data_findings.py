"""What the numbers about an image folder mean for loading it, each with its next step. Nothing is read here."""

from __future__ import annotations

from collections.abc import Iterator

from gpufeed.inspect.doctor.data import (
    NEEDED_SHORT_SIDE,
    OVERSIZED_PIXELS,
    RESIZED_SHORT_SIDE,
    DataSurvey,
    Named,
)
from gpufeed.inspect.doctor.environment import Environment
from gpufeed.inspect.doctor.findings import Finding, Level, bytes_text, counted
from gpufeed.inspect.doctor.gpus import Driver
from gpufeed.inspect.doctor.headers import Fault

__all__ = ["data_findings"]

_MANY = 0.05  # of the files: below it a kind that is decoded more slowly hardly costs anything
_MOST = 0.5
_CACHED = 0.8  # of the memory: what the page cache may hold beside the training itself

_FAULT_SAYS: dict[Fault, str] = {
    "unreadable": "can't be read",
    "empty": "empty",
    "no image": "no image that is known here",
    "cut off": "cut off: the format's end marker is missing",
}
_FAULT_MEANS: dict[Fault, str] = {
    "unreadable": "The epoch ends there with an error.",
    "empty": "The epoch ends there with an error.",
    "no image": "The epoch ends there with an error.",
    "cut off": "Pillow refuses such a file; DALI does only if what is missing lies in the part that it decodes.",
}


def data_findings(survey: DataSurvey, environment: Environment) -> tuple[Finding, ...]:
    """Everything that is worth saying about the images."""
    looks = (_files, _folders, _faults, _refused, _not_listed, _sizes, _large, _formats)
    jpegs = (_engines, _progressive, _four_channels, _unusual, _turned)
    found = [finding for look in (*looks, *jpegs) for finding in look(survey)]
    engines = _engines_of(environment)
    if engines is not None:
        found = [finding for finding in found if finding.topic != "JPEG engines"]
        found += _for_this_gpu(survey, *engines)
    return (*found, *_cache(survey, environment))


def _finding(
    topic: str, level: Level, what: str, meaning: str = "", next_step: str = "", named: Named | None = None
) -> Finding:
    paths = () if named is None else tuple(path for path, _ in named.files)
    return Finding("data", topic, level, what, meaning, next_step, paths)


def _of(count: int, survey: DataSurvey) -> str:
    """``3 of 2,000 (0.15 %)``."""
    total = survey.num_looked_at
    return f"all {total:,}" if count == total > 1 else f"{count:,} of {total:,} ({100 * count / total:.3g} %)"


def _share(count: int, survey: DataSurvey) -> float:
    return count / survey.num_looked_at


# The files themselves -------------------------------------------------------------------------------------------------


def _files(survey: DataSurvey) -> Iterator[Finding]:
    count = counted(survey.num_images, "image")
    which = (
        "all headers looked at"
        if survey.num_looked_at == survey.num_images
        else f"headers of {survey.num_looked_at:,} looked at, evenly spread (--all looks at each)"
    )
    yield _finding("files", "ok", f"{count} below {survey.root}; {which}.")


def _folders(survey: DataSurvey) -> Iterator[Finding]:
    folders = survey.unreadable_folders
    if folders:
        yield Finding(
            "data",
            "files",
            "problem",
            f"{counted(len(folders), 'folder')} can't be listed.",
            "What is in them is missing here; torchvision's ImageFolder leaves it out too, or fails.",
            f"ls -ld {folders[0]}; chmod a+rX on what should be read",
            tuple(folders[:5]),
        )


def _faults(survey: DataSurvey) -> Iterator[Finding]:
    for fault, named in survey.faults.items():
        are = "is" if named.count == 1 else "are"
        verb = "" if fault == "unreadable" else f"{are} "
        yield _finding(
            "files",
            "problem",
            f"{_of(named.count, survey)} {verb}{_FAULT_SAYS[fault]}.",
            _FAULT_MEANS[fault],
            "Fetch them again, or remove them" if fault != "unreadable" else "chmod a+r on them, or remove them",
            named,
        )


def _refused(survey: DataSurvey) -> Iterator[Finding]:
    named = survey.refused
    if named.count:
        causes = list(dict.fromkeys(text for _, text in named.files))
        yield _finding(
            "formats",
            "problem",
            f"{_of(named.count, survey)} {'is' if named.count == 1 else 'are'} refused by gpufeed.",
            f"Causes: {'; '.join(cause.partition(';')[0] for cause in causes)}.",
            "Convert them to 8-bit RGB, as PNG or JPEG; or use torch's loader for them",
            named,
        )


def _not_listed(survey: DataSurvey) -> Iterator[Finding]:
    if survey.not_listed:
        kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(survey.not_listed.items()))
        yield _finding(
            "formats",
            "note",
            f"torchvision's ImageFolder leaves these out without a word: {kinds}.",
            "They take no part in training, neither with torch nor with gpufeed.",
            "Convert them to PNG or JPEG if they should",
        )


# Sizes ----------------------------------------------------------------------------------------------------------------


def _sizes(survey: DataSurvey) -> Iterator[Finding]:
    pixels, file_bytes, bits = survey.pixels, survey.file_bytes, survey.bits_per_pixel
    if pixels is None or file_bytes is None or bits is None or survey.median_size_hw is None:
        return
    height, width = survey.median_size_hw
    yield _finding(
        "sizes",
        "ok",
        f"Height x width: median {height} x {width}. Megapixels: median {_mega(pixels.median)}, 95 % to "
        f"{_mega(pixels.p95)}, largest {_mega(pixels.max)}. Files: median {bytes_text(file_bytes.median)}, 95 % to "
        f"{bytes_text(file_bytes.p95)}, largest {bytes_text(file_bytes.max)}. "
        f"Bits per pixel: median {bits.median:.1f}.",
    )


def _mega(pixels: float) -> str:
    return f"{pixels / 1e6:.3g}"


def _large(survey: DataSurvey) -> Iterator[Finding]:
    have = "has" if survey.num_oversized == 1 else "have"
    over = f"{_of(survey.num_oversized, survey)} {have} more than {OVERSIZED_PIXELS / 1e6:.0f} megapixels"
    if _share(survey.num_large, survey) >= _MOST:
        also = f"; {over}" if survey.num_oversized else ""
        yield _finding(
            "sizes",
            "note",
            f"{_of(survey.num_large, survey)} are larger than needed: a shorter side above {2 * NEEDED_SHORT_SIDE}, "
            f"more than 4 times the pixels that Resize({NEEDED_SHORT_SIDE}) and a crop of 224 use{also}.",
            f"Decoding takes time by the pixel. A copy with shorter sides of at most {RESIZED_SHORT_SIDE} would have "
            f"{survey.pixels_ratio:.1f} times fewer pixels: up to that factor where decoding is what holds you back, "
            f"with any loader. gpufeed decodes only the window of a RandomResizedCrop, which saves a part of it.",
            f"Once, into a copy: Pillow's resize, or ImageMagick's -resize '{RESIZED_SHORT_SIDE}x{RESIZED_SHORT_SIDE}"
            "^>' -quality 95. Pixels change a little: evaluate on the same copy",
        )
    elif survey.num_oversized:
        yield _finding(
            "sizes",
            "note",
            f"{over}.",
            "Each takes 60 MB or more decoded and holds its batch up.",
            f"Resize these once, to a shorter side of {RESIZED_SHORT_SIDE} or what the task needs",
        )


def _cache(survey: DataSurvey, environment: Environment) -> Iterator[Finding]:
    limit = environment.memory_limit_bytes or environment.memory_bytes
    memory = min(limit, environment.memory_bytes)
    size = survey.estimated_bytes
    about = "" if survey.num_looked_at == survey.num_images else "about "
    if size > _CACHED * memory:
        yield _finding(
            "page cache",
            "note",
            f"The images have {about}{bytes_text(size)}, and the memory {bytes_text(memory)}.",
            "They don't stay in the page cache: each epoch reads them from the disk again.",
            "A fast local disk, more memory, or a smaller copy of the images",
        )
    else:
        yield _finding(
            "page cache",
            "ok",
            f"The images have {about}{bytes_text(size)}, which {bytes_text(memory)} of memory can keep after the "
            "first epoch.",
        )


# Formats --------------------------------------------------------------------------------------------------------------


def _formats(survey: DataSurvey) -> Iterator[Finding]:
    others = {kind: count for kind, count in survey.formats.items() if kind not in ("JPEG", "no image")}
    listed = ", ".join(f"{kind} {count:,}" for kind, count in survey.formats.items())
    if not others:
        yield _finding("formats", "ok", f"{listed}.")
        return
    many = _share(sum(others.values()), survey) >= _MANY
    yield _finding(
        "formats",
        "note" if many else "ok",
        f"{listed}.",
        "The CPU decodes PNG, WebP, BMP and PNM, also where a GPU decodes JPEGs." if many else "",
        "JPEG at quality 95, where loss doesn't matter, decodes faster and on the GPU" if many else "",
    )


def _rest(survey: DataSurvey) -> str:
    all_of_them = survey.num_engine == survey.num_looked_at
    return "" if all_of_them else "; the others are decoded on its cores and the CPU"


def _engines(survey: DataSurvey) -> Iterator[Finding]:
    if "JPEG" in survey.formats:
        yield _finding(
            "JPEG engines",
            "ok",
            f"Where a GPU has some, they could decode {_of(survey.num_engine, survey)} (baseline, 8 bits, grey or "
            f"YCbCr){_rest(survey)}.",
        )


def _engines_of(environment: Environment) -> tuple[str, int | None] | None:
    """The first GPU that is known to have JPEG engines or to have none; ``None`` is an unknown number of them."""
    gpus = environment.driver.gpus if isinstance(environment.driver, Driver) else ()
    return next(((gpu.name, gpu.jpeg_engines.count) for gpu in gpus if gpu.jpeg_engines is not None), None)


def _for_this_gpu(survey: DataSurvey, name: str, engines: int | None) -> Iterator[Finding]:
    if "JPEG" not in survey.formats:
        return
    if engines == 0:
        yield _finding("JPEG engines", "ok", f"The {name} decodes JPEGs on its cores and the CPU: it has no engines.")
        return
    well = _share(survey.num_engine, survey) >= 1 - _MANY
    some = "JPEG engines" if engines is None else counted(engines, "JPEG engine")
    yield _finding(
        "JPEG engines",
        "ok" if well else "note",
        f"The {some} of the {name} can decode {_of(survey.num_engine, survey)}{_rest(survey)}.",
        "" if well else "Engines take baseline JPEGs of 8 bits, grey or YCbCr; what they don't take is slower.",
        "" if well else "Make the others baseline JPEGs; how is said below",
    )


def _progressive(survey: DataSurvey) -> Iterator[Finding]:
    count = survey.num_progressive
    if not count:
        return
    many = _share(count, survey) >= _MANY
    yield _finding(
        "progressive",
        "note" if many else "ok",
        f"{_of(count, survey)} {'is a progressive JPEG' if count == 1 else 'are progressive JPEGs'}.",
        "Each has several scans over the whole image: JPEG engines don't take them, the CPU takes longer for them, and "
        "decoding a region only saves less."
        if many
        else "",
        "jpegtran -copy all -optimize -outfile NEW.jpg OLD.jpg makes baseline of them without any loss" if many else "",
    )


def _four_channels(survey: DataSurvey) -> Iterator[Finding]:
    count = survey.num_four_channels
    if count:
        yield _finding(
            "CMYK",
            "note" if _share(count, survey) >= _MANY else "ok",
            f"{_of(count, survey)} {'is' if count == 1 else 'are'} CMYK or YCCK, made for print.",
            "JPEG engines don't take them. gpufeed decodes those with Adobe's marker, by Pillow's formula.",
            "Convert them to RGB once, if colours matter with their ICC profile",
        )


def _unusual(survey: DataSurvey) -> Iterator[Finding]:
    count = survey.num_unusual
    if count:
        yield _finding(
            "formats",
            "note",
            f"{_of(count, survey)} {'is a JPEG' if count == 1 else 'are JPEGs'} of an unusual kind: arithmetic or "
            "lossless coding, 12 bits, or two channels.",
            "Whether they are decoded wasn't tested.",
            "Convert them to baseline JPEG",
        )


def _turned(survey: DataSurvey) -> Iterator[Finding]:
    count = sum(survey.orientations.values())
    if count:
        listed = ", ".join(f"{number}: {of:,}" for number, of in survey.orientations.items())
        yield _finding(
            "EXIF",
            "note",
            f"{_of(count, survey)} {'has' if count == 1 else 'have'} an EXIF orientation to be applied ({listed}).",
            "torchvision doesn't turn them, and gpufeed does as torchvision does: the model sees them lying.",
            "DataLoader(..., apply_exif=True) turns them; boxes and masks must then fit the turned image",
        )

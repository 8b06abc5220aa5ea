"""`DataLoader`: torch's, with DALI behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self, TypeGuard, cast

import numpy as np
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset
from torchvision.datasets import ImageFolder

from gpufeed import sampling
from gpufeed.config import loader_arguments
from gpufeed.devices import parse_device
from gpufeed.errors import ArgumentError
from gpufeed.iteration import EpochIterator, Runtime
from gpufeed.options import Decode
from gpufeed.pipelines import Pipeline
from gpufeed.pipelines.naming import load_subject
from gpufeed.sources.folders import source_of
from gpufeed.stats import LoaderStats

__all__ = ["DataLoader"]

_DECODE = Decode()


class DataLoader(TorchDataLoader[Any]):
    """A drop-in for ``torch.utils.data.DataLoader`` that decodes and transforms images by DALI and torch.

    It yields what torch's loader would: the same samples in the same order in the same batches, of the same shapes and
    dtypes, on ``device``. ``gpufeed.translate`` and the README say how equal the pixels are.

    Example::

        from gpufeed import DataLoader  # was: from torch.utils.data import DataLoader

        loader = DataLoader(ImageFolder(root, transform=transform), batch_size=256, shuffle=True, num_workers=8)
        for images, targets in loader:
            ...

    What torch's arguments mean here:

    ======================= ==========================================================================================
    argument                meaning
    ======================= ==========================================================================================
    dataset                 ``ImageFolder`` or ``DatasetFolder``, any nesting of ``Subset``, ``ConcatDataset`` and
                            ``random_split`` over them; or a source, such as ``gpufeed.sources.YoloSource``; or a
                            folder's path, with ``pipeline=`` (``loader.dataset`` is then an ``ImageFolder`` without a
                            transform, or what the pipeline opens). It is never changed. Edits to its
                            ``transform`` and ``samples`` are seen at the next ``iter()``.
    batch_size, shuffle,    as in torch; torch's own samplers are used.
    sampler, batch_sampler,
    drop_last
    generator               as in torch. With ``seed`` the loader neither reads nor moves it.
    num_workers             no processes: the number of threads, where ``num_threads`` is not given. Also how far ahead
                            indices are drawn (``num_workers * prefetch_factor`` batches, as in torch). 0: as many
                            threads as CPUs, and indices are drawn as far ahead as batches are in flight.
    collate_fn              called on the iterating thread with the list of samples: each a tuple of an image, a view
                            on the device, and the target as the dataset gave it. Every tensor in what it returns is
                            moved to the device.
    pin_memory              page-locked batches if ``device`` is the CPU and the machine has an accelerator; of no
                            effect on a CUDA device, where batches lie on it already.
    timeout                 seconds to wait for a batch, as in torch; with ``num_workers=0`` too.
    worker_init_fn          kept, never called: there are no workers, and draws don't depend on global generators.
    multiprocessing_context validated as in torch, otherwise without effect: there are no processes.
    prefetch_factor         batches in flight, 2 if not given; with ``num_workers=0`` too.
    persistent_workers      ``iter()`` returns the same iterator again, as in torch; with ``num_workers=0`` too. Threads
                            and graphs are kept between epochs in any case.
    pin_memory_device       deprecated in torch, and treated alike.
    in_order                batches always come in order, which ``False`` allows too.
    ======================= ==========================================================================================

    Exceptions to torch's contract, all of them:

    * With ``num_workers=0`` torch refuses ``prefetch_factor``, ``persistent_workers``, ``multiprocessing_context`` and
      ``timeout``; here they are taken.
    * With ``num_workers=0`` torch draws each batch of indices when it is asked for; here as many as are in flight are
      drawn ahead, from the first ``next()`` on. A given ``generator``, the loader's or a sampler's, is put back when an
      epoch ends early; what a sampler has taken from torch's *global* generator by then is not. Random transforms
      don't move torch's generators here at all.
    * With workers torch raises an error of a sampler as soon as it draws ahead; here it waits for its turn, so that the
      batches before it arrive.
    * After any exception the iterator is finished; torch's goes on with the next batch.
    * There are no worker processes: ``get_worker_info()`` is ``None`` in ``collate_fn`` and ``target_transform``, which
      run on the iterating thread when a batch is handed over, and errors come as they were raised, not wrapped.
    * ``prefetch_factor=0`` is an error; torch fails at ``iter()``.
    * torch's warning about too many worker processes doesn't appear.
    * A truncated JPEG whose damage lies below the window that is decoded loads without an error.

    Args:
        pipeline: what to do with a sample, in place of ``dataset.transform``: a torchvision transform, or a
            `gpufeed.pipeline` or its name, ``"FILE.py:NAME"`` or ``"gpufeed:imagenet:train"``. A transform in both
            places is an error. With a `gpufeed.pipeline` batches have the structure that its function, or its tail,
            returns, and a path is opened as its module says.
        device: where batches lie: ``"auto"`` is ``cuda:LOCAL_RANK`` (where the process sees more than one device), or
            the current CUDA device, or the CPU where there is none, found at the first ``iter()``; or what
            ``torch.device`` takes. Construction never touches CUDA.
        seed: an integer makes the order (``torch.randperm`` under ``seed + epoch``, as ``DistributedSampler``) and all
            draws pure functions of (seed, epoch), and nothing global is read. ``None``: the order comes from torch's
            generators as torch's own loader draws it, and the draws follow from the loader's base seed.
        num_threads: CPU threads; ``None``: ``num_workers`` if above 0, else the CPUs that this process may use
            (affinity, cgroup quota) divided by ``LOCAL_WORLD_SIZE``.
        decode: how images are decoded.
        apply_exif: whether to turn images by their EXIF orientation; torchvision doesn't.
        strict: refuse a transform that isn't within 1/255 of torchvision's values for 99.9 % of them, op by op.

    Raises:
        ValueError, TypeError: torch's own, for arguments that it refuses.
        ArgumentError: for a wrong value of an argument of gpufeed's.
        UnsupportedError: for a dataset, transform or device that gpufeed can't do exactly, before the first batch.
        SampleError: while iterating, for a file that can't be read or decoded; batches before it have arrived, and the
            loader stays usable.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | str | os.PathLike[str],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        pipeline: Any = None,
        device: Literal["auto"] | str | int | torch.device = "auto",
        seed: int | None = None,
        num_threads: int | None = None,
        decode: Decode = _DECODE,
        apply_exif: bool = False,
        strict: bool = False,
    ) -> None:
        _check_arguments(prefetch_factor, device, seed, num_threads, decode)
        _check_flags(apply_exif=apply_exif, strict=strict)
        loaded = _loaded(pipeline)
        dataset = _as_dataset(dataset, loaded)
        makes_order = shuffle and sampler is None and batch_sampler is None and not isinstance(dataset, IterableDataset)
        order = sampling.SeededSampler(cast(Any, dataset), seed) if makes_order and seed is not None else None
        # torch refuses these without workers; they are taken here, so torch is asked as if there were one.
        as_if_worker = num_workers == 0 and (
            prefetch_factor is not None or persistent_workers or multiprocessing_context is not None
        )
        cast(Any, super()).__init__(
            dataset,
            batch_size,
            shuffle if order is None else False,
            sampler if order is None else order,
            batch_sampler,
            1 if as_if_worker else num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        source_of(dataset)  # refuses a dataset that can't be read, early
        self.num_workers = num_workers
        if as_if_worker:
            self.prefetch_factor = prefetch_factor
        self.shuffle = shuffle
        self.pipeline = pipeline
        self._loaded = loaded
        # `device` is a property; the value as it was given lies beside it, where frameworks that rebuild loaders look.
        self.__dict__["device"] = device
        self.seed = seed
        self.num_threads = num_threads
        self.decode = decode
        self.apply_exif = apply_exif
        self.strict = strict
        self._given_samplers = tuple(given for given in (batch_sampler, sampler) if given is not None)
        self._epochs = sampling.EpochCounter()
        self._runtime = Runtime()

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], dataset: Any, **overrides: Any) -> Self:
        """A loader with the settings that ``gpufeed tune`` found: ``[gpufeed]`` of its TOML file.

        Args:
            path: of the file. It sets ``num_threads``, ``prefetch_factor`` and ``decode``.
            dataset: as for the class.
            overrides: the other arguments; those that the file sets too replace the file's.

        Raises:
            ArgumentError: the file is wrong, holds a key that isn't known or has no ``[gpufeed]``; or an argument isn't
                known. And what the class raises.
        """
        return cls(dataset, **cast("dict[str, Any]", loader_arguments(os.fspath(path), overrides, cls)))

    # What frameworks read ------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device | str | int:
        """Where batches lie; until the first ``iter()`` the argument as it was given."""
        return self._runtime.device or cast("torch.device | str | int", self.__dict__["device"])

    def check_worker_number_rationality(self) -> None:
        """torch warns here about too many worker processes; there are none."""

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_runtime": Runtime(), "_iterator": None, "_epochs": replace(self._epochs)}
        if isinstance(self.pipeline, str):  # a file's functions can't be pickled, and its name can
            state["_loaded"] = None
        return state

    def loaded_pipeline(self) -> object:
        """What ``pipeline`` names or is: a transform, a `gpufeed.Pipeline`, or ``None``."""
        if self._loaded is None or not isinstance(self.pipeline, str):
            self._loaded = _loaded(self.pipeline)
        return self._loaded

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in ("seed", "shuffle") and attr in self.__dict__:  # the sampler was made from them, as in torch
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        cast(Any, super()).__setattr__(attr, val)

    # Epochs --------------------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next ``iter()``, and tell the given samplers that want to know.

        Args:
            epoch: at least 0. Without a call, each ``iter()`` takes a given sampler's integer ``epoch`` attribute, or
                else is one epoch later than the one before, from 0 on.

        Raises:
            ArgumentError: for anything else.
        """
        if not _is_integer(epoch) or epoch < 0:
            raise ArgumentError(f"epoch must be an integer of at least 0, got {epoch!r}")
        self._epochs.chosen = int(epoch)
        sampling.pass_epoch(self._samplers(), epoch)

    def _samplers(self) -> list[object]:
        """The samplers that the user gave, outermost first, and what torch's own batch samplers among them wrap."""
        samplers: list[object] = []
        for given in self._given_samplers:
            samplers += sampling.unwrap(given)
        return samplers

    def __iter__(self) -> Any:
        if not self.persistent_workers:
            return EpochIterator(self, self._runtime)
        if self._iterator is None:
            self._iterator = cast(Any, EpochIterator(self, self._runtime))
        else:
            cast(Any, self._iterator).restart(self)
        return self._iterator

    def stats(self) -> LoaderStats:
        """How long the consumer waited, and where the time of a batch went, in the epoch begun last.

        May be called at any time and from any thread, also after `close`; a pickled loader has none. Stages of a
        transform are ``read`` (files), ``draw`` (random numbers and sizes), ``decode`` on the CPU or ``graph`` on CUDA
        (DALI), ``tail`` (torch) and ``collate``; a pipeline has ``compute`` besides, what the host computes for its
        graph, and on the CPU both ``decode`` and ``graph``.
        """
        return self._runtime.record.stats()

    # Lifetime ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release threads, graphs and memory; a running epoch ends. The loader can be used again afterwards."""
        self._runtime.close()
        self._iterator = None

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _check_arguments(
    prefetch_factor: object, device: object, seed: object, num_threads: object, decode: object
) -> None:
    if prefetch_factor == 0:
        raise ArgumentError("prefetch_factor must be at least 1, got 0: without a batch in flight none ever arrives")
    if seed is not None and not (_is_integer(seed) and _MIN_SEED <= seed <= _MAX_SEED):
        raise ArgumentError(f"seed must be an integer in [-2**63, 2**63), or None, got {seed!r}")
    if num_threads is not None and not (_is_integer(num_threads) and num_threads >= 1):
        raise ArgumentError(f"num_threads must be an integer of at least 1, or None, got {num_threads!r}")
    if not isinstance(decode, Decode):
        raise ArgumentError(f"decode must be a gpufeed.Decode, such as Decode(placement='cpu'), got {decode!r}")
    parse_device(device)


def _check_flags(**flags: object) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} must be True or False, got {value!r}")


_MIN_SEED, _MAX_SEED = -(2**63), 2**63 - 1
"""What ``torch.Generator.manual_seed`` takes, with room for the epochs that are added."""


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _loaded(pipeline: object) -> object:
    """The pipeline itself, or what its name stands for; a user's file runs only here, because it is named."""
    return load_subject(pipeline) if isinstance(pipeline, str) else pipeline


def _as_dataset(dataset: object, pipeline: object) -> Dataset[Any]:
    """The dataset itself, or, of a path, what the pipeline opens there, else an ``ImageFolder``."""
    if not isinstance(dataset, (str, os.PathLike)):
        return cast("Dataset[Any]", dataset)
    path = os.fspath(cast("str | os.PathLike[str]", dataset))
    if pipeline is None:
        raise ArgumentError(
            f"a folder's path ({path!r}) needs pipeline=, a torchvision transform or a gpufeed pipeline that says what "
            "to do with its images"
        )
    if isinstance(pipeline, Pipeline):
        return pipeline.make_source(path)
    return cast(Any, ImageFolder)(path)

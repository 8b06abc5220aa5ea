"""`PrefetchLoader`: any loader, filled ahead by a thread while the model trains."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any, Literal

import torch

from gpufeed.devices import parse_device, resolve_device
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.filling import SIGNALS_EVERY_S, End, Filled, Filling, Inner
from gpufeed.stats import EpochRecord, LoaderStats
from gpufeed.tensors import hand_over
from gpufeed.threads import OwnThread, at_work, on_own_thread

__all__ = ["PrefetchIterator", "PrefetchLoader"]


_MOST_DEPTH = 100_000  # batches, each of which takes its memory: more can't be meant


class PrefetchLoader:
    """Any loader, filled ahead: a thread takes its batches and brings them to a device while the model trains.

    Example::

        loader = gpufeed.PrefetchLoader(torch_loader, depth=5, device="cuda")
        for images, targets in loader:  # on the device already
            ...

    The batches are those of the loader, in its order. Filling begins with ``iter()``, which calls ``iter()`` of the
    loader on the calling thread; after that the loader is used on the thread alone, and never by two at once. At most
    ``depth`` batches are ahead of the consumer, the one under way included. What the loader raises instead of a batch
    is raised at that batch's turn, with its traceback, and the iterator is finished then.

    On a CUDA device a batch is copied on a stream of its own, from page-locked memory, and the consumer's current
    stream waits for the copy; the memory belongs to the caller and isn't written any more. What the loader itself does
    on CUDA runs on that stream too.

    Leaving a loop early, `close` and garbage collection end the thread, as soon as the batch under way is done: it
    can't be cancelled, and the next ``iter()``, `close` and the interpreter's exit wait for it. Batches that were ready
    by then are dropped. A loader that is its own iterator, as a generator, has given them away for good.

    With a loader that draws from torch's global generators while it iterates (torch's ``DataLoader`` with
    ``num_workers=0``) those draws happen ahead, in between the model's own: give it a ``generator``, or workers, where
    runs must be repeatable.

    Whatever else is read, called or set on this object is the loader's: ``dataset``, ``batch_size``, ``sampler``.

    Between epochs, with ``across_epochs=False``, the queue is empty until the next ``iter()``: only then is it known
    which epoch that will be, what has become of the dataset, and what others have drawn from the generators.
    ``across_epochs=True`` begins the next epoch as soon as the thread has exhausted one, at most one epoch ahead. That
    is right if nothing that the loader depends on changes between two epochs:

    * A generator that the order comes from is drawn from earlier than without. An epoch that was begun and that nobody
      asks for, as after the last one, has used the dataset and the generators.
    * If `set_epoch` is called here, or the ``epoch`` of one of the loader's samplers changes before the next
      ``iter()``, what was filled is dropped and the epoch begins anew: the order is right, and the gap is back. To
      have neither, call ``set_epoch(epoch + 1)`` during epoch ``epoch``, after its first batch. Calling it again
      before the next loop does no harm.

    Args:
        loader: any iterable of batches: tensors in mappings, tuples and sequences, nested. Tensors in other objects
            are left where they are.
        depth: most batches ahead of the consumer, in [1, 100,000]. Each takes its memory on ``device``.
        device: where tensors are brought: what `DataLoader` takes, with ``"auto"`` for the current CUDA device or else
            the CPU, found at the first ``iter()``. ``None``: they stay where they are.
        across_epochs: whether to begin the next epoch ahead, see above.

    Raises:
        ArgumentError: for a wrong value.
        TypeError: by ``len()``, where the loader has none.
    """

    __slots__ = (
        "__weakref__",
        "_across_epochs",
        "_ahead",
        "_ahead_finalizer",
        "_depth",
        "_device",
        "_inner",
        "_pid",
        "_record",
        "_resolved",
        "_threads",
    )

    def __init__(
        self,
        loader: Any,
        depth: int = 5,
        device: Literal["auto"] | str | int | torch.device | None = None,
        *,
        across_epochs: bool = False,
    ) -> None:
        _check_arguments(loader, depth, across_epochs)
        if device is not None:
            parse_device(device)
        self._inner = Inner(loader)
        self._depth = depth
        self._device = device
        self._across_epochs = across_epochs
        self._resolved: torch.device | None = None
        self._threads: dict[Filling, OwnThread] = {}
        self._ahead: Filling | None = None
        self._ahead_finalizer: weakref.finalize[Any, PrefetchLoader] | None = None
        self._record = EpochRecord(counts_samples=False)
        self._pid = os.getpid()

    def __reduce__(self) -> Any:
        return _remade, (self.loader, self._depth, self._device, self._across_epochs)

    # What is the loader's --------------------------------------------------------------------------------------------

    @property
    def loader(self) -> Any:
        """The loader that is filled ahead."""
        return self._inner.loader

    @property
    def depth(self) -> int:
        """Most batches ahead of the consumer."""
        return self._depth

    @property
    def device(self) -> torch.device | str | int | None:
        """Where tensors are brought; until the first ``iter()`` the argument as it was given."""
        return self._resolved or self._device

    def __len__(self) -> int:
        return len(self.loader)

    def __bool__(self) -> bool:
        """Always true, also where there is no length."""
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in type(self).__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.loader, name, value)

    def set_epoch(self, epoch: int) -> None:
        """Tell the loader the epoch of the next ``iter()``; or, if it doesn't take one, those of its samplers that do.

        May wait for the batch under way.

        Raises:
            UnsupportedError: where neither has ``set_epoch``.
        """
        if not self._inner.set_epoch(epoch):
            raise UnsupportedError(
                f"set_epoch({epoch}) has nobody to tell: neither {type(self.loader).__name__} nor a sampler of it has "
                "set_epoch; leave the call out, or give the loader a sampler that has, as DistributedSampler"
            )

    # Epochs ----------------------------------------------------------------------------------------------------------

    def __iter__(self) -> PrefetchIterator:
        record = EpochRecord(counts_samples=False)
        with at_work():
            self._forget_the_parents()
            iterator = self._continued(record) or self._begun(record)
        record.begun()
        self._record = record
        return iterator

    def _forget_the_parents(self) -> None:
        """In a forked child: the threads are in the parent, and one of them may hold the lock for ever."""
        if self._pid != os.getpid():
            self._inner = Inner(self.loader)
            self._threads, self._ahead = {}, None
            self._pid = os.getpid()

    def _continued(self, record: EpochRecord) -> PrefetchIterator | None:
        """An iterator over the epoch that was begun ahead, if that is still the one that would begin now."""
        filling = self._ahead
        if filling is None:
            return None
        iterator: PrefetchIterator | None = None
        try:
            begun = filling.next_begun()
            if begun is not None and self._inner.take_over(begun):
                filling.want_next()
                iterator = PrefetchIterator(self, filling, record)
        finally:
            self._ahead = None
            if self._ahead_finalizer is not None:
                self._ahead_finalizer.detach()
            if iterator is None:
                filling.stop()
        return iterator

    def _begun(self, record: EpochRecord) -> PrefetchIterator:
        if self._device is not None and self._resolved is None:
            self._resolved = resolve_device(self._device)
        for filling, thread in list(self._threads.items()):
            if filling.stopped:
                filling.stop()  # again: a Ctrl-C may have come in the middle of the first time
                _join(thread)  # what an iterator left early does in the loader must be over before that begins anew
        inner = self._inner
        with inner.turn:
            begun = inner.begin()
            self._threads = {filling: thread for filling, thread in self._threads.items() if thread.is_alive()}
            for other in self._threads:
                if other.is_on(begun.batches):
                    other.stop()
            stream = _stream_of(self._resolved)
            filling = Filling(inner, begun, self._depth, self._resolved, stream, self._across_epochs)
        iterator = PrefetchIterator(self, filling, record)
        self._threads[filling] = filling.start()
        return iterator

    def keep(self, filling: Filling) -> None:
        """An iterator has come to the end of its epoch, and the thread goes on with the next one."""
        self._ahead = filling
        self._ahead_finalizer = weakref.finalize(self, filling.stop)
        self._ahead_finalizer.atexit = False

    # Figures and lifetime --------------------------------------------------------------------------------------------

    def stats(self) -> LoaderStats:
        """How long the consumer waited, and where the time of a batch went, in the epoch begun last.

        The stages are ``load``, the loader's own ``next()``, and ``copy``, the host's part of bringing a batch to the
        device. Samples aren't known. May be called at any time and from any thread.
        """
        return self._record.stats()

    def close(self) -> None:
        """End the thread, and running epochs with it; waits for the batch under way. Can be used again afterwards.

        The loader itself is not closed. A garbage collection on a thread of gpufeed's own doesn't wait.
        """
        threads = dict(self._threads)  # they are forgotten last: after a Ctrl-C in here the next call finds them
        for filling in threads:
            filling.stop()
        if not on_own_thread():
            for thread in threads.values():
                _join(thread)
        self._threads, self._ahead = {}, None

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _remade(loader: Any, depth: int, device: Any, across_epochs: bool) -> PrefetchLoader:
    return PrefetchLoader(loader, depth, device, across_epochs=across_epochs)


def _check_arguments(loader: object, depth: object, across_epochs: object) -> None:
    if not hasattr(type(loader), "__iter__") and not hasattr(type(loader), "__getitem__"):
        called = "; call it, and give what it returns" if callable(loader) else ""
        raise ArgumentError(f"loader must be an iterable of batches, got {loader!r}{called}")
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= _MOST_DEPTH:
        raise ArgumentError(f"depth must be an integer in [1, {_MOST_DEPTH:,}], got {depth!r}")
    if not isinstance(across_epochs, bool):
        raise ArgumentError(f"across_epochs must be True or False, got {across_epochs!r}")


def _join(thread: OwnThread) -> None:
    """Wait for a thread to end, unless this is it; a Ctrl-C that Python misses isn't lost."""
    while thread.is_alive() and threading.current_thread() is not thread:
        thread.join(SIGNALS_EVERY_S)


def _stream_of(device: torch.device | None) -> Any:
    """A CUDA stream for a thread that fills, behind what the caller has asked of the device; ``None`` without CUDA.

    Where batches aren't brought to a device the loader may still use one, by default the caller's current one.
    """
    if device is not None and device.type == "cuda":
        where = device
    elif torch.cuda.is_initialized():
        where = torch.device("cuda", torch.cuda.current_device())
    else:
        return None
    stream = torch.cuda.Stream(where)
    stream.wait_stream(torch.cuda.current_stream(where))
    return stream


class PrefetchIterator:
    """What ``iter()`` of a `PrefetchLoader` returns."""

    def __init__(self, loader: PrefetchLoader, filling: Filling, record: EpochRecord) -> None:
        self._loader = weakref.ref(loader)
        self._filling = filling
        self._record = record
        self._ended = False
        self._finalizer = weakref.finalize(self, filling.stop)
        self._finalizer.atexit = False  # the thread is ended by then

    def __iter__(self) -> PrefetchIterator:
        return self

    def __len__(self) -> int:
        return len(self._filling.loader)

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        asked_at = time.perf_counter()
        with at_work():
            try:
                self._refuse_fork()
                in_flight, ready = self._filling.ahead
                filled = self._taken()
            except BaseException:
                self._end()
                self._record.end(asked_at)
                raise
        self._record.handed_over(asked_at, filled.spent_s, in_flight, ready, ready > 0)
        return filled.batch

    def _refuse_fork(self) -> None:
        if self._filling.foreign:
            raise UnsupportedError(
                "this iterator was made before the process was forked, and its thread is in the parent; "
                "call iter(loader) in this process"
            )

    def _taken(self) -> Filled:
        item = self._filling.take()
        if isinstance(item, End):
            _raise_error_of(item)
            self._pass_on()
            raise StopIteration
        for device, event in item.events:
            torch.cuda.current_stream(device).wait_event(event)
        hand_over(item.on_cuda)
        return item

    def _pass_on(self) -> None:
        """The epoch is exhausted, and the thread goes on with the next one for the loader."""
        loader = self._loader()
        if self._filling.across_epochs and not self._filling.stopped and loader is not None:
            loader.keep(self._filling)
            self._finalizer.detach()

    def _end(self) -> None:
        self._ended = True
        self._finalizer()


def _raise_error_of(end: End) -> None:
    error, end.error = end.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # or the error, its traceback and this frame would keep each other alive

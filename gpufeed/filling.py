"""A thread that goes through somebody's loader ahead of whoever takes the batches, and brings them to a device."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch

from gpufeed import sampling
from gpufeed.stats import Timed
from gpufeed.tensors import map_tensors
from gpufeed.threads import OwnThread

__all__ = ["SIGNALS_EVERY_S", "Begun", "End", "Filled", "Filling", "Inner"]

SIGNALS_EVERY_S = 0.5
"""How long a wait of the consumer lasts at once. Python doesn't notice a signal that arrives just before it begins to
wait: without an end to the wait a Ctrl-C could be lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """An epoch of the inner loader that has begun.

    Attributes:
        batches: the inner iterator.
        told: the epoch that was set for it, if one was.
        epochs: what its samplers said of their epochs then.
    """

    batches: Iterator[Any]
    told: int | None
    epochs: tuple[object, ...]


class Inner:
    """The loader that is wrapped: used by one thread at a time, as if there were no other.

    Args:
        loader: any iterable of batches.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.turn = threading.RLock()
        self._told: int | None = None
        self._told_ahead: int | None = None

    def begin(self, ahead: bool = False) -> Begun:
        """Call ``iter()``.

        Args:
            ahead: whether the consumer hasn't asked for this epoch yet.
        """
        with self.turn:
            if not ahead and self._told is None and self._told_ahead is not None:
                self._tell(self._told_ahead)  # the epoch that began with it was dropped
            told, self._told = self._told, None
            self._told_ahead = told if ahead else None
            batches = iter(self.loader)
            return Begun(batches, told, _epochs_of(self.loader))

    def set_epoch(self, epoch: int) -> bool:
        """Tell the loader, or else its samplers, the epoch of the next ``iter()``; false if none of them wants to know.

        Told again what an epoch has begun ahead with, nobody is told: it would count for the epoch after that.
        """
        with self.turn:
            if self._told_ahead is not None and self._told_ahead == epoch:
                return True
            return self._tell(epoch)

    def _tell(self, epoch: int) -> bool:
        wanting = [self.loader] if hasattr(self.loader, "set_epoch") else _samplers_of(self.loader)
        for part in wanting:
            part.set_epoch(epoch)
        self._told = epoch
        return bool(wanting)

    def take_over(self, begun: Begun) -> bool:
        """Whether an epoch begun ahead is the one that would begin now."""
        with self.turn:
            same = self._told is None and _epochs_of(self.loader) == begun.epochs
            if same:
                self._told_ahead = None
            return same


def _samplers_of(loader: Any) -> list[Any]:
    """Those whose epoch is set from outside, outermost first, each once."""
    given = [getattr(loader, name, None) for name in ("batch_sampler", "sampler")]
    chain = {id(part): part for each in given if each is not None for part in sampling.unwrap(each)}
    return [part for part in chain.values() if hasattr(part, "set_epoch") and type(part) is not sampling.SeededSampler]


def _epochs_of(loader: Any) -> tuple[object, ...]:
    """What decides the next epoch's order, as far as it can be seen: of samplers and of gpufeed's own loader."""
    chosen = getattr(getattr(loader, "_epochs", None), "chosen", None)
    return (*(getattr(sampler, "epoch", None) for sampler in _samplers_of(loader)), chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A batch for the consumer.

    Attributes:
        batch: as the loader made it, its tensors on the device.
        on_cuda: its tensors on CUDA devices.
        events: for each of those devices, what the consumer's stream must wait for.
        spent_s: the batch's time in each stage. [Unit: second]
    """

    batch: Any
    on_cuda: list[torch.Tensor]
    events: list[tuple[torch.device, Any]]
    spent_s: dict[str, float]


@dataclass(slots=True, eq=False)
class End:
    """No more batches in this epoch.

    Attributes:
        error: what the loader raised instead of a batch; ``None`` where it was exhausted, and once it is raised.
    """

    error: BaseException | None = None


class Filling:
    """What a thread and its consumer share; it refers to neither, so that all go without a garbage collection.

    The queues are ``SimpleQueue`` because `stop` is called by finalizers: a garbage collection may happen anywhere,
    inside of any other lock.

    Args:
        inner: the loader.
        begun: its first epoch.
        depth: most batches ahead of the consumer, the one under way included.
        device: where tensors are brought; ``None``: they stay where they are.
        stream: the CUDA stream that the thread works on; ``None``: no CUDA.
        across_epochs: whether to begin the next epoch when one is exhausted; one at a time.
    """

    def __init__(
        self, inner: Inner, begun: Begun, depth: int, device: torch.device | None, stream: Any, across_epochs: bool
    ) -> None:
        self.stopped = False
        self.across_epochs = across_epochs
        self._depth = depth
        self._device = device
        self._stream = stream
        self._inner = inner
        self._pid = os.getpid()
        self._iterators = [begun.batches]  # in a list, so that the thread can take it and hold it alone
        self._iterator_id = id(begun.batches)
        self._filled: queue.SimpleQueue[Filled | End] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._begun: queue.SimpleQueue[Begun | BaseException | None] = queue.SimpleQueue()
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        for _ in range(depth):
            self._room.put(True)
        self.want_next()

    # The consumer's side ---------------------------------------------------------------------------------------------

    def start(self) -> OwnThread:
        """Begin to fill, on the thread that is returned."""
        thread = OwnThread(self._fill, (), "gpufeed-prefetch", self.stop)
        thread.start()
        return thread

    @property
    def loader(self) -> Any:
        """Whose batches they are."""
        return self._inner.loader

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child, where the thread doesn't exist."""
        return os.getpid() != self._pid

    @property
    def ahead(self) -> tuple[int, int]:
        """How many batches are under way or complete, and how many are complete."""
        ready = self._filled.qsize()
        return max(ready, self._depth - self._room.qsize()), ready

    def take(self) -> Filled | End:
        """Wait for the next batch, and make room for another one."""
        item = self._waited(self._filled)
        if item is None:
            return End()
        if isinstance(item, Filled):
            self._room.put(True)
        return item

    def next_begun(self) -> Begun | None:
        """Wait until the next epoch has begun; ``None`` if it was stopped.

        Raises:
            BaseException: what ``iter()`` of the loader raised.
        """
        found = self._waited(self._begun)
        if isinstance(found, BaseException):
            raise found
        return found

    def want_next(self) -> None:
        """An epoch was taken over: when that is exhausted, the next one may begin."""
        self._wanted.put(True)

    def stop(self) -> None:
        """Ask the thread to end, drop what is there, wake who waits. Never waits; may be called from any thread."""
        if self.foreign:
            return
        self.stopped = True
        for asked in (self._room, self._wanted):
            asked.put(False)
        self._drain()

    def is_on(self, batches: Iterator[Any]) -> bool:
        """Whether it goes through this very iterator: ``iter()`` has begun it anew, as that of persistent workers."""
        return self._iterator_id == id(batches)

    def _waited(self, asked: queue.SimpleQueue[Any]) -> Any:
        """The queue's next item; ``None`` when stopped."""
        while not self.stopped:
            try:
                return asked.get(timeout=SIGNALS_EVERY_S)
            except queue.Empty:
                continue
        return None

    def _drain(self) -> None:
        for full in (self._filled, self._begun):
            try:
                while True:
                    full.get_nowait()
            except queue.Empty:
                pass
        self._filled.put(End())
        self._begun.put(None)

    # The thread's side -----------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Fill until the last epoch is exhausted, something fails, or it is stopped."""
        try:
            with _on(self._stream):
                while self._fill_epoch() and self._begin_next():
                    pass
        except BaseException as error:  # handed to the consumer, which raises it
            self._filled.put(End(error.with_traceback(None)))
        self._iterators.clear()
        self._iterator_id = 0
        if self.stopped:
            self._drain()  # what was put since

    def _fill_epoch(self) -> bool:
        """Fill one epoch; whether it was exhausted."""
        batches = self._iterators.pop()
        while self._room.get() and not self.stopped:
            end = self._fill_one(batches)
            if end is not None:
                self._room.put(True)
                del batches  # closed by the time the consumer hears of the end
                self._iterator_id = 0
                self._filled.put(end)
                return end.error is None
        return False

    def _fill_one(self, batches: Iterator[Any]) -> End | None:
        """Make one batch, or say why there is none."""
        spent_s: dict[str, float] = {}
        try:
            with self._inner.turn, Timed(spent_s, "load"):
                if self.stopped:
                    return End()
                batch = next(batches)
            self._filled.put(self._placed(batch, spent_s))
        except StopIteration:
            return End()
        except BaseException as error:  # handed to the consumer, which raises it
            inside = error.__traceback__ and error.__traceback__.tb_next  # our frame would keep the iterator alive
            return End(error.with_traceback(inside))
        return None

    def _begin_next(self) -> bool:
        if not self.across_epochs or not self._wanted.get() or self.stopped:
            return False
        try:
            begun = self._inner.begin(ahead=True)
        except BaseException as error:  # handed to the consumer, which raises it
            self._begun.put(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            return False
        self._iterators.append(begun.batches)
        self._iterator_id = id(begun.batches)
        self._begun.put(Begun(iter(()), begun.told, begun.epochs))  # the thread alone holds the iterator
        return True

    def _placed(self, batch: Any, spent_s: dict[str, float]) -> Filled:
        """A batch with its tensors on the device; their copies are under way on the current stream."""
        device = self._device
        if device is None and self._stream is None:
            return Filled(batch, [], [], spent_s)
        on_cuda: list[torch.Tensor] = []
        moved = False

        def place(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal moved
            if device is not None and tensor.device != device:
                moved = True
                tensor = _copied(tensor, device)
            if tensor.is_cuda:
                on_cuda.append(tensor)
            return tensor

        with Timed(spent_s, "copy"):
            placed = map_tensors(batch, place)
            devices = dict.fromkeys(tensor.device for tensor in on_cuda)
            events = [(where, torch.cuda.current_stream(where).record_event()) for where in devices]
        return Filled(placed if moved else batch, on_cuda, events, spent_s)


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on another device; to CUDA from page-locked memory, so that the host needn't wait for the copy.

    torch keeps page-locked memory until the copies from it are done. Subclasses of tensors, which pinning would turn
    into plain ones, and sparse tensors are copied as they are.
    """
    if device.type != "cuda":
        return tensor.to(device)
    plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.device.type == "cpu"
    if plain and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@contextmanager
def _on(stream: Any) -> Generator[None]:
    """Work on a CUDA stream and its device; without one, as it is."""
    if stream is None:
        yield
        return
    with cast("Callable[[Any], Any]", torch.cuda.device)(stream.device), torch.cuda.stream(stream):
        yield

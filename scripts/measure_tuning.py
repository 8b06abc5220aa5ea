"""Does ``gpufeed tune`` find what the full grid finds, and in how much less time?

It measures every cell of the grid (a discarded epoch and three that count), runs the search with all the time that it
wants, and then lets the search's choice and the grid's best cell run against each other in turn, as a cell that is the
best of many is so partly by luck. For each loader it prints the share of the best cell's throughput that the choice
has, and the share of the grid's time that the search took. Run it on a machine that does nothing else:

    python scripts/measure_tuning.py                     # the built-in images; on 2 CPUs some 10 minutes
    python scripts/measure_tuning.py --batch-size 64     # as tune does by default, and twice as long
    python scripts/measure_tuning.py photos --loader gpufeed --cpus 1
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpufeed.bench import synthetic
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.tuning.live import PlainWatcher
from gpufeed.bench.tuning.measuring import CONTENDERS, EPOCH_SHARE
from gpufeed.bench.tuning.results import Trial, Tuned
from gpufeed.bench.tuning.search import Bench, Search
from gpufeed.bench.tuning.space import LoaderName, Setting, Space, describe
from gpufeed.bench.tuning.tune import MakeSearch, Request, tune
from gpufeed.cpus import usable_cpus

EPOCHS_PER_CELL = 3
DUEL_VISITS = 4


class Visits:
    """Measures given settings in turn, again and again; stands in for the search."""

    def __init__(
        self,
        settings: Sequence[Setting],
        times: int,
        epochs: int,
        space: Space,
        bench: Bench,
        tell: Callable[[Trial], None],
    ) -> None:
        self.trials: dict[Setting, Trial] = {}
        self._order = [*settings] * times
        self._epochs = epochs
        self._space = space
        self._bench = bench
        self._tell = tell

    def run(self) -> None:
        # Long enough epochs for the first setting's pace are chosen at the first visit, as in the search.
        for setting in [self._space.start, *self._order]:
            visit = self._bench.visit(setting, self._epochs)
            known = self.trials.get(setting, Trial(setting))
            rates = (*known.images_per_s, *visit.images_per_s)
            self.trials[setting] = Trial(setting, rates, visit.peak_memory_bytes, visit.failure)
            self._tell(self.trials[setting])

    def result(self) -> Tuned:
        trials = tuple(self.trials.values())
        best = max(trials, key=lambda trial: trial.rate).setting if trials else None
        return Tuned(self._space.loader, best, self._space.start, trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="an image folder; the built-in images if not given")
    parser.add_argument("--loader", choices=("torch", "gpufeed", "both"), default="both", help="default: %(default)s")
    parser.add_argument("--transform", default="train", help="default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--cpus", type=int, default=usable_cpus(), help="for the space (default: the usable ones)")
    parser.add_argument("--epoch", type=float, default=0.72, help="seconds of the start's epoch (default: %(default)s)")
    options = parser.parse_args()
    loaders: tuple[LoaderName, ...] = ("torch", "gpufeed") if options.loader == "both" else (options.loader,)
    watcher = PlainWatcher(sys.stderr)
    folder = options.data or synthetic.folder(watcher)
    watcher.budget(0)
    total = {"grid": 0.0, "search": 0.0}
    for loader in loaders:

        def measured(search: MakeSearch, loader: LoaderName = loader) -> tuple[Tuned, float]:
            clock = Clock(search)
            request = Request(
                files=list_image_folder(folder),
                data=str(folder),
                transform=options.transform,
                batch_size=options.batch_size,
                num_cpus=options.cpus,
                device="cpu",
                budget_s=options.epoch / EPOCH_SHARE,
                contenders={loader: CONTENDERS[loader]},
                search=clock,
            )
            tuning = tune(request, watcher, time.monotonic() + 1e6)  # no deadline
            return tuning.loaders[0], clock.took_s

        watcher.say(f"{loader}: the search")
        found, search_s = measured(Search)
        watcher.say(f"{loader}: the grid")
        grid, grid_s = measured(
            lambda space, bench, _, tell: Visits(space.grid(), 1, EPOCHS_PER_CELL, space, bench, tell)
        )
        assert found.best is not None
        assert grid.best is not None
        watcher.say(f"{loader}: the choice against the grid's best cell")
        pair = [found.best, grid.best]
        duel, _ = measured(lambda space, bench, _, tell, pair=pair: Visits(pair, DUEL_VISITS, 1, space, bench, tell))
        total["grid"] += grid_s
        total["search"] += search_s
        report(loader, found, grid, duel, search_s, grid_s)
    print(
        f"together: the search took {total['search']:.0f} s, {total['search'] / total['grid']:.0%} of the grid's time"
    )


class Clock:
    """Makes a search and notes how long it runs: the imports, which both need once, apart."""

    def __init__(self, make: MakeSearch) -> None:
        self.took_s = 0.0
        self._make = make

    def __call__(self, space: Space, bench: Bench, limit: int | None, tell: Callable[[Trial], None]) -> Clock:
        self._search = self._make(space, bench, limit, tell)
        return self

    def run(self) -> None:
        started_s = time.monotonic()
        self._search.run()
        self.took_s = time.monotonic() - started_s

    def result(self) -> Tuned:
        return self._search.result()


def report(loader: str, found: Tuned, grid: Tuned, duel: Tuned, search_s: float, grid_s: float) -> None:
    best, chosen = grid.best_trial, grid.trial(found.best) if found.best is not None else None
    assert best is not None
    print(
        f"{loader}: {len(grid.trials)} cells in {grid_s:.0f} s; {len(found.trials)} settings in {search_s:.0f} s "
        f"({search_s / grid_s:.0%} of the grid's time); noise {found.noise or 0:.1%}"
    )
    print(f"  the grid's best: {describe(best.setting)}: {best.rate:.1f} images/s")
    in_grid = (
        "not in the grid" if chosen is None else f"{chosen.rate:.1f} images/s, {chosen.rate / best.rate:.0%} of it"
    )
    print(f"  the choice:      {describe(found.best) if found.best else 'none'}: {in_grid} in the grid")
    rates = {trial.setting: trial.rate for trial in duel.trials}
    if found.best is not None and found.best != grid.best:
        print(f"  against each other in turn: the choice has {rates[found.best] / rates[best.setting]:.0%}")


if __name__ == "__main__":
    main()

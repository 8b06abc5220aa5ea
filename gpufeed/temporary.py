"""The folder for temporary files, below which torch's workers open the sockets that hand over batches."""

from __future__ import annotations

import multiprocessing.util
import os
import sys
import tempfile

__all__ = ["too_long_for_workers"]

_MOST = 107 - len("/pymp-12345678/listener-12345678")  # bytes: what Linux takes as a socket's path, less what is added


def too_long_for_workers() -> str:
    """Why workers of torch's DataLoader can't hand over any batch; empty where they can.

    They send descriptors of shared memory through a socket below the folder for temporary files. Where its path is too
    long, the thread that sends prints an error and goes on, and whoever waits for the batch waits for ever.
    """
    folder = tempfile.gettempdir()
    length = len(os.fsencode(folder))
    # Python 3.13.9, 3.14 and later take /tmp in place of such a folder (CPython issue 132124).
    mends_itself = hasattr(multiprocessing.util, "_get_base_temp_dir")
    if sys.platform != "linux" or mends_itself or length <= _MOST:
        return ""
    return (
        f"the folder for temporary files, {folder}, has a path of {length} bytes, and with more than {_MOST} the "
        f"workers of torch's DataLoader can't open the sockets that batches are handed over with, and hang"
    )

"""Which file system a path lies on, and of what kind: from Linux's table of mounts."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["FileSystem", "Kind", "file_system", "kind_of"]

Kind = Literal["local", "network", "overlay", "memory", "unknown"]

# Names as /proc/mounts has them; see filesystems(5) and the projects' own mount helpers.
_KINDS: dict[Kind, frozenset[str]] = {
    "local": frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "squashfs", "erofs"}),
    "network": frozenset(
        {
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "lustre",
            "gpfs",
            "ceph",
            "beegfs",
            "glusterfs",
            "afs",
            "9p",
            "virtiofs",
        }
        | {"ocfs2", "gfs2", "pvfs2", "wekafs", "juicefs", "fuse.sshfs", "fuse.s3fs", "fuse.goofys", "fuse.gcsfuse"}
        | {"fuse.blobfuse2", "fuse.rclone", "fuse.mount-s3", "fuse.juicefs", "fuse.glusterfs", "fuse.ceph"}
    ),
    "overlay": frozenset({"overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs"}),
    "memory": frozenset({"tmpfs", "ramfs"}),
}


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Where a path lies.

    Attributes:
        type: its name in the table of mounts, such as ``ext4``; empty where there is no such table.
        kind: what that means for reading.
        mounted_at: the folder that it is mounted on.
        free_bytes: what a user may still write there. [Unit: byte]
    """

    type: str
    kind: Kind
    mounted_at: str
    free_bytes: int


def file_system(path: str | os.PathLike[str], mounts: Path = Path("/proc/mounts")) -> FileSystem:
    """The file system of an existing path, links resolved.

    Args:
        path: a file or a folder.
        mounts: the table of mounts (tests).

    Raises:
        OSError: where ``path`` can't be looked at.
    """
    resolved = os.path.realpath(path)
    free_bytes = shutil.disk_usage(resolved).free
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return FileSystem("", "unknown", "", free_bytes)
    mounted_at, name = "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescaped(fields[1])
        # The longest wins, and of equal ones the last, which hides those before it.
        if _is_below(resolved, point) and len(point) >= len(mounted_at):
            mounted_at, name = point, fields[2]
    return FileSystem(name, kind_of(name), mounted_at, free_bytes)


def kind_of(name: str) -> Kind:
    """What a file system's name means for reading; ``unknown`` for a name that isn't known here."""
    for kind, names in _KINDS.items():
        if name in names:
            return kind
    return "unknown"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def _unescaped(text: str) -> str:
    """Blanks and the like stand as octal numbers there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)

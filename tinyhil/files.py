"""How files of others are read, and ours written: sizes limited before anything is read, declared shapes checked
before anything is allocated, damage of any kind one error of ours; text is UTF-8 whatever the locale.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import math
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyhil.errors import ConfigError, DataError, HilError

if TYPE_CHECKING:
    import numpy as np
    import yaml

MEGABYTE = 1 << 20
MOST_TEXT_BYTES = 64 * MEGABYTE  # records, ranges, tables: a record of 10,000 samples takes 2 MB
MOST_YAML_BYTES = MEGABYTE
MOST_MODEL_BYTES = 2048 * MEGABYTE  # of protobuf's messages
MOST_ARRAY_BYTES = 4096 * MEGABYTE  # of a file, and of what it unpacks to
MOST_YAML_NODES = 100_000  # with aliases followed
MOST_UNPACKED_BYTES = 256 * MEGABYTE  # of an archive, or MOST_RATIO times its size: deflate reaches 1000 for zeros
MOST_RATIO = 50
MOST_HEADER_BYTES = 10_000  # of a .npy, as numpy has it


def as_bytes(content: str | bytes) -> bytes:
    """What a file of this content holds."""
    return content.encode() if isinstance(content, str) else content


def read_bytes(path: Path, what: str, most: int, error: type[HilError] = DataError) -> bytes:
    """The content of a regular file of at most `most` bytes; `error` names `what` it should have been."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise error(f"{path}: no regular file, but a {what} is needed")
            if found.st_size > most:
                raise error(f"{path}: {found.st_size} B, more than the {most} B that a {what} may have")
            content = file.read(found.st_size + 1)
    except OSError as problem:
        raise error(f"{path}: {'no such file' if problem.errno == errno.ENOENT else problem.strerror}") from None
    except ValueError as problem:  # a null byte, or half a character, which no path has
        raise error(f"{str(path)!r}: {problem}") from None
    if len(content) > found.st_size:
        raise error(f"{path}: it grows while it is read; a {what} is needed that is finished")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer is opened at once, and refused."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes


def opened(path: Path, mode: str) -> Any:
    """A file to be written in a folder that others may write to, too (results, logs): a symbolic link there is not
    followed, a pipe not waited for. OSError, which names it; texts are UTF-8."""
    file = open(path, mode, encoding=None if "b" in mode else "utf-8", opener=_without_following)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, f"{path.name} is no regular file", str(path))
    return file


def _without_following(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):
            what = "a symbolic link" if problem.errno == errno.ELOOP else "a pipe"
            raise OSError(problem.errno, f"{Path(path).name} is {what}; remove it", path) from None
        raise


def own_folder(path: Path, error: type[HilError] = ConfigError) -> Path:
    """The folder, made for us alone if it is not there: what lies in it is loaded and executed.

    `error` where it belongs to another user or others may write to it; OSError if it can not be made.
    """
    for folder in reversed((path, *path.parents)):
        with contextlib.suppress(FileExistsError):
            if not folder.exists():
                folder.mkdir(mode=0o700)
    require_own(path, error)
    return path


def require_own(path: Path, error: type[HilError] = ConfigError) -> None:
    """`error` if somebody else may have put the file or folder there: it, or the link to it, is another user's (root's
    is nobody else's), or others may write to it."""
    if not hasattr(os, "geteuid"):  # Windows
        return
    try:
        found, link = os.stat(path), os.lstat(path)
    except OSError:  # none: nobody has put it there
        return
    trusted = (0, os.geteuid())
    if found.st_uid not in trusted or link.st_uid not in trusted:
        raise error(
            f"{path}: belongs to another user, who could plant code there; set HIL_CACHE to a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise error(f"{path}: others may write to it and plant code there; type: chmod -R go-w '{path}'")


def read_text(path: Path, what: str, most: int = MOST_TEXT_BYTES, error: type[HilError] = DataError) -> str:
    """The text of a UTF-8 file."""
    try:
        return read_bytes(path, what, most, error).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: no UTF-8 text at byte {problem.start}, but a {what} is needed") from None


def read_json(path: Path, what: str, most: int = MOST_TEXT_BYTES, error: type[HilError] = DataError) -> Any:
    """The JSON value in a file; NaN and Infinity, which JSON does not know, are errors."""
    text = read_text(path, what, most, error)
    try:
        found = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if "\\ud" in text.lower():  # JSON can write half a character, which no file and no terminal can
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except ValueError as problem:
        raise error(f"{path}: not a readable {what} ({str(problem)[:100]})") from None
    except RecursionError:
        raise error(f"{path}: not a readable {what} (nested too deeply)") from None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


@cache
def _yaml_loader() -> Any:
    """SafeLoader, to which 1e-5 is a number, as in YAML 1.2 and JSON."""
    import yaml

    loader = type("Loader", (yaml.SafeLoader,), {})
    number = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")
    loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))  # type: ignore[attr-defined]
    return loader


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of a YAML text. ValueError if it nests too deeply, its aliases stand for too many nodes, or a tag makes
    something else of a value than what is written."""
    import yaml

    if len(text) > MOST_YAML_BYTES:
        raise ValueError(f"{len(text)} characters, more than {MOST_YAML_BYTES}")
    try:
        root = yaml.compose(text, Loader=_yaml_loader())
        nodes = 0.0 if root is None else _expanded(root, {})
        if nodes > MOST_YAML_NODES:
            why = "it contains itself" if nodes == math.inf else f"it stands for more than {MOST_YAML_NODES} nodes"
            raise ValueError(f"an alias is nested too deeply: {why}")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for node in () if root is None else _nodes(root, set()):
        _require_untagged(node)
    return root


def _nodes(node: yaml.Node, seen: set[int]) -> Iterator[yaml.Node]:
    """Every node once."""
    if id(node) not in seen:
        seen.add(id(node))
        yield node
        if not isinstance(node.value, str):
            for item in node.value:
                for part in item if isinstance(item, tuple) else (item,):
                    yield from _nodes(part, seen)


def _require_untagged(node: yaml.Node) -> None:
    """PyYAML's constructors answer `!!int x` and its like with errors of any kind."""
    import yaml

    plain = getattr(node, "style", None) is None
    usual = _yaml_resolver().resolve(type(node), node.value, (plain, not plain))
    if node.tag != usual:
        where = yaml.MarkedYAMLError(problem_mark=node.start_mark, problem=f"the tag {node.tag!r} is not taken")
        raise where


@cache
def _yaml_resolver() -> Any:
    return _yaml_loader()("")


def yaml_scalar(node: yaml.Node) -> Any:
    """What a node without others inside stands for; ValueError for what only looks like a number or a date."""
    import yaml

    loader = _yaml_loader()("")
    try:
        return loader.construct_object(node)
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, yaml.YAMLError) as error:
        raise ValueError(f"{node.value!r}: {str(error).splitlines()[0] if str(error) else 'no value'}") from None
    finally:
        loader.dispose()


def parse_yaml(text: str) -> Any:
    """A YAML text as dicts, lists and scalars. ValueError or yaml.YAMLError for what `compose_yaml` refuses, a key that
    is there twice or is no word."""
    root = compose_yaml(text)
    return None if root is None else _plain_yaml(root)


def _plain_yaml(node: yaml.Node) -> Any:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_plain_yaml(item) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return yaml_scalar(node)
    found: dict[Any, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError("a key must be a word")
        name = yaml_scalar(key)
        if name in found:
            raise ValueError(f"'{name}' is given twice")
        found[name] = _plain_yaml(value)
    return found


def _expanded(node: yaml.Node, known: dict[int, float]) -> float:
    """Nodes below this one, each alias counted with all that it stands for; infinite if it contains itself."""
    if isinstance(node.value, str):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf  # until it is counted
        inside = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_expanded(part, known) for part in inside)
    return known[id(node)]


def read_arrays(path: Path, error: type[HilError] = DataError) -> dict[str, np.ndarray] | np.ndarray:
    """The array of a .npy, or those of a .npz by name; `error` if any of it is damaged or too large."""
    return parse_arrays(read_bytes(path, ".npz or .npy file", MOST_ARRAY_BYTES, error), str(path), error)


def parse_arrays(content: bytes, name: str, error: type[HilError] = DataError) -> dict[str, np.ndarray] | np.ndarray:
    """As `read_arrays`, of what was read already from the file `name`.

    What can not be read raises `error`; a ValueError within says why.
    """
    try:
        if not content.startswith(b"PK"):
            return _array(content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_unpacked(archive, len(content))
            return {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in archive.infolist()}
    except Exception as problem:  # whatever zipfile, zlib, ast and numpy raise on damage
        reason = str(problem).splitlines()[0][:100] if str(problem) else type(problem).__name__
        remedy = "" if content[:2] in (b"PK", b"\x93N") else "; numpy.savez('x.npz', x=samples, y=labels) writes one"
        raise error(f"{name}: not a readable .npz or .npy file ({reason}){remedy}") from None


def check_unpacked(archive: zipfile.ZipFile, packed_bytes: int) -> None:
    """ValueError, before anything is unpacked, if the archive declares more than its size makes credible."""
    declared = sum(member.file_size for member in archive.infolist())
    most = min(MOST_ARRAY_BYTES, max(MOST_UNPACKED_BYTES, MOST_RATIO * packed_bytes))
    if declared > most:
        raise ValueError(f"it unpacks to {declared} B, more than {most} B; save it without compression")


@contextlib.contextmanager
def unpacking(path: Path) -> Iterator[zipfile.ZipFile]:
    """The .zip at `path`, whose members may be read; ValueError, OSError or BadZipFile if they may not."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(archive, path.stat().st_size)
        yield archive


def gunzipped(path: Path) -> bytes:
    """What a .gz holds, of which nothing declares the size; ValueError if it is more than its size makes credible."""
    most = max(MOST_UNPACKED_BYTES, MOST_RATIO * path.stat().st_size)
    with gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it unpacks to more than {most} B")
    return content


def _array(content: bytes) -> np.ndarray:
    """The array in the bytes of a .npy. ValueError unless they are as many as its header declares."""
    import numpy as np
    from numpy.lib import format as npy

    file = io.BytesIO(content)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=MOST_HEADER_BYTES)
    if dtype.hasobject:
        raise ValueError("it holds objects; save numbers, words with astype(str)")
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shape}")
    wanted, there = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if wanted > there:
        raise ValueError(f"its header declares {wanted} B of data, there are {there}")
    flat = np.frombuffer(content, dtype, math.prod(shape), file.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """OSError within is said of `path`: of a full disk the system names no file, of a file's making another."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file as a whole: who reads it finds the old content or the new, after a power cut, too. The new name is
    nobody's to guess. A device or a pipe stays what it is, and is written to."""
    with naming(path):
        if _is_special(path):
            path.write_bytes(content)
            return
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # or a power cut may leave the new name with nothing in it
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
            _sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _sync_folder(folder: Path) -> None:
    """Its names outlive a power cut, where the system can see to that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that know no such thing
            raise
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Read from the kernel: asking for it by setting it would change it for other threads."""
    for line in _status_lines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022


def _status_lines() -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()

"""Questions and answers that several processes share: one file of JSON lines, appended under a lock.

Who wants an answer claims its question first. A claim holds as long as its process lives: that has a lock on a file
of its own, which ends with it however it ends, so that nobody waits for the dead. A torn last line is closed by the
next to write and means nothing. Locks are those of the file system: processes of other machines may take part.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import filelock
from pydantic import RootModel, StringConstraints, model_validator

from tinyhil import files
from tinyhil.fields import Count, Exact, Word
from tinyhil.sealed import sealed, whole_lines
from tinyhil.search.evaluator import Score
from tinyhil.search.lines import CandidateLine, ScoreLine
from tinyhil.search.space import Candidate

POLL_S = 0.01
NAME_LETTERS = 60  # of a machine, in the name of a process: file systems take 255
Name = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]
Process = Annotated[str, StringConstraints(pattern=r"^[\w-][\w.-]{0,119}$")]


@dataclass(frozen=True)
class Query:
    """What a score depends on: the assignment, the samples of a probe or the part of them, and above how many
    disagreements the evaluation may end."""

    candidate: Candidate
    probe: int | None = None
    part: str | None = None
    above: int | None = None

    @cached_property
    def name(self) -> str:
        """24 digits of SHA-256 of it: equal questions of several processes have one name."""
        return hashlib.sha256(json.dumps(self.as_json()).encode()).hexdigest()[:24]

    def as_json(self) -> dict[str, Any]:
        """As a line of the journal has it; `of` reads it."""
        formats = [choice.format for choice in self.candidate]
        offsets = [choice.offset for choice in self.candidate]
        return {"formats": formats, "offsets": offsets, "probe": self.probe, "part": self.part, "above": self.above}


class Asked(CandidateLine):
    """A question under its name."""

    ask: Name
    probe: Count | None
    part: Word | None
    above: Count | None

    @model_validator(mode="after")
    def _of_this_name(self) -> Asked:
        if self.query().name != self.ask:
            raise ValueError("the question has another name")
        return self

    def query(self) -> Query:
        """The question."""
        return Query(self.candidate(), self.probe, self.part, self.above)


class Claimed(Exact):
    """Who works on an answer."""

    claim: Name
    by: Process


class Answered(ScoreLine):
    """An answer."""

    tell: Name


class Leads(Exact):
    """Whose questions they are."""

    asking: Process


class Said(RootModel[Asked | Claimed | Answered | Leads]):
    """Any line of a journal."""


Evaluate = Callable[[Query], Score]


class Journal:
    """One process's view of the file at `path`. To be used in a `with`: its claims end there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = filelock.FileLock(path.with_suffix(".lock"))
        machine = re.sub(r"[^\w-]", "_", platform.node(), flags=re.ASCII)[:NAME_LETTERS]
        self._me = f"{machine}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._alive = filelock.FileLock(self._sign_of(self._me))
        self._open: dict[str, Query] = {}
        self._claims: dict[str, str] = {}
        self._answers: dict[str, Score] = {}
        self._asking = ""  # who asks last
        self._offset = self._lines = 0  # of the file, that were read

    def __enter__(self) -> Journal:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._alive.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._alive.release()
        self._sign_of(self._me).unlink(missing_ok=True)

    def lead(self) -> None:
        """From now on the questions are this process's; who helps does so until it ends."""
        with self._changing() as append:
            append({"asking": self._me})

    def is_led(self) -> bool:
        """Whether the process that asks lives."""
        with self._changing():
            return bool(self._asking) and self._lives(self._asking)

    def post(self, questions: Iterable[Query]) -> None:
        """Questions that will be asked: others may answer them before."""
        with self._changing() as append:
            for question in questions:
                if question.name not in self._open and question.name not in self._answers:
                    append({"ask": question.name, **question.as_json()})

    def take(self) -> Query | None:
        """A question that nobody has answered and nobody alive works on, claimed; None if there is none now."""
        with self._changing() as append:
            for name, question in self._open.items():
                if not self._taken(name):
                    append({"claim": name, "by": self._me})
                    return question
        return None

    def tell(self, question: Query, score: Score) -> None:
        """The answer."""
        with self._changing() as append:
            append({"tell": question.name, **asdict(score)})

    def answer(self, question: Query, evaluate: Evaluate) -> Score:
        """What somebody told, else what `evaluate` says. While another works on it, other questions are answered.

        A question with a bound is answered by the whole score as well.
        """
        names = [question.name, replace(question, above=None).name]
        while True:
            with self._changing() as append:
                answered = next((self._answers[name] for name in names if name in self._answers), None)
                if answered is not None:
                    return answered
                mine = not any(self._taken(name) for name in names)
                if mine:
                    append({"ask": question.name, **question.as_json()})
                    append({"claim": question.name, "by": self._me})
            if mine:
                score = evaluate(question)
                self.tell(question, score)
                return score
            other = self.take()
            if other is None:
                time.sleep(POLL_S)
            else:
                self.tell(other, evaluate(other))

    def _taken(self, name: str) -> bool:
        by = self._claims.get(name)
        return by is not None and by != self._me and self._lives(by)

    def _lives(self, process: str) -> bool:
        if process == self._me:
            return True
        sign = self._sign_of(process)
        if not sign.exists():
            return False
        lock = filelock.FileLock(sign, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            return True
        lock.release()
        sign.unlink(missing_ok=True)
        return False

    def _sign_of(self, process: str) -> Path:
        return self._path.with_name(f"{self._path.stem}.{process}.alive")

    @contextmanager
    def _changing(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Alone with the file, all of it read; yields what appends a line."""
        with self._lock, files.opened(self._path, "a+b") as file:
            file.seek(self._offset)
            content = file.read()
            whole = content.rfind(b"\n") + 1
            for said in whole_lines(self._path, content[:whole].split(b"\n"), Said, self._lines + 1):
                self._take_in(said)
            self._lines += content.count(b"\n")
            self._offset += len(content)

            def append(data: dict[str, Any]) -> None:
                self._offset += file.write(sealed(data).encode() + b"\n")
                self._lines += 1
                file.flush()
                self._take_in(Said.model_validate(data))

            if whole < len(content):  # who wrote it is dead: it is closed and means nothing
                self._offset += file.write(b"\n")
                self._lines += 1
            yield append

    def _take_in(self, said: Said) -> None:
        match said.root:
            case Asked(ask=name) as asked if name not in self._answers:
                self._open.setdefault(name, asked.query())
            case Claimed(claim=name, by=process):
                self._claims[name] = process
            case Answered(tell=name) as answered:
                self._answers.setdefault(name, answered.score())
                self._open.pop(name, None)
            case Leads(asking=process):
                self._asking = process

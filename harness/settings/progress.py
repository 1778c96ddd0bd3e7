"""What a run is doing: a bar on a terminal, a line now and then elsewhere, and lines for the parent of several runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

HEARTBEAT = "HIL_HEARTBEAT_S"  # seconds between two lines without a terminal; 0: none
USUAL_S = 30.0
TO_PARENT = "HIL_PROGRESS_LINES"  # set: every change is a line that `read_line` reads
LINE = "hil-progress"
DOING = {
    "model": "reading the model",
    "data": "reading samples",
    "compile": "compiling the model",
    "reference": "computing the reference",
    "build": "building firmware",
    "flash": "flashing",
    "stream": "running",
}


@dataclass
class Progress:
    """What is told of a run; `tell` is called whenever that changes. Called with finished samples and all of them."""

    tell: Callable[[Progress], None] = lambda progress: None
    stage: str = ""
    finished: int = 0
    total: int = 0
    unit: str = "samples"

    def __call__(self, finished: int, total: int) -> None:
        self.finished, self.total = finished, total
        self.tell(self)

    def enter(self, stage: str) -> None:
        """A stage of the run begins."""
        self.stage = stage
        self.tell(self)

    def text(self) -> str:
        """`running, 12 of 950 samples`."""
        doing = DOING.get(self.stage, self.stage or "starting")
        return f"{doing}, {self.finished} of {self.total} {self.unit}" if self.total else doing


def heartbeat_s(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds between two lines; what is no number means the usual ones."""
    try:
        return max(0.0, float(environment.get(HEARTBEAT, USUAL_S)))
    except ValueError:
        return USUAL_S


def heartbeat(title: str, progress: Progress, seconds: float) -> str:
    """The line of a run that nobody watches: that it lives, and where it is."""
    return f"{title}: {progress.text()}, {seconds:.0f} s"


@contextmanager
def progress_on(console: Console, title: str) -> Iterator[Progress]:
    """A progress that is shown on `console`: as a bar, or as a line every `heartbeat_s()` seconds."""
    if os.environ.get(TO_PARENT):
        yield Progress(lambda p: console.print(f"{LINE} {p.finished} {p.total} {p.stage}", markup=False))
        return
    if not console.is_terminal:
        progress = Progress()
        with beating(console, lambda seconds: heartbeat(title, progress, seconds)):
            yield progress
        return
    with bars(console) as add:
        yield add(title)


@contextmanager
def beating(console: Console, line: Callable[[float], str]) -> Iterator[None]:
    """Meanwhile prints `line(seconds since the beginning)` every `heartbeat_s()` seconds."""
    begin, every_s, over = time.monotonic(), heartbeat_s(), threading.Event()

    def beat() -> None:
        while not over.wait(every_s):
            console.print(line(time.monotonic() - begin), markup=False)

    thread = threading.Thread(target=beat, daemon=True)
    if every_s:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if every_s:
            thread.join()


@contextmanager
def bars(console: Console) -> Iterator[Callable[[str], Progress]]:
    """Yields what adds a bar with a title."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as shown:

        def add(title: str) -> Progress:
            task = shown.add_task(title, total=None)

            def tell(progress: Progress) -> None:
                doing = DOING.get(progress.stage, progress.stage)
                text = f"{title}: {doing}" if doing else title
                shown.update(task, description=text, completed=progress.finished, total=progress.total or None)

            return Progress(tell)

        yield add


def read_line(line: str) -> tuple[int, int, str] | None:
    """Finished samples, all of them and the stage that a run told its parent; None: another line."""
    word, _, rest = line.partition(" ")
    parts = rest.split(" ", 2)
    if word != LINE or len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1]), parts[2]

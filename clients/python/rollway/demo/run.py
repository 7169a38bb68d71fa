"""Start a service with an embedded worker, train against it, show how it goes, draw the rewards, stop everything."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import rollway
from rollway.demo.trainer import Config, Report, Step, train
from rollway.errors import RollwayError

_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the demo showed. `wall_s`: from the moment the service was ready to the last evaluation."""

    report: Report
    wall_s: float
    plot: Path

    @property
    def accuracy_ratio(self) -> float:
        """NaN when no problem was solved before."""
        return self.report.after / self.report.before if self.report.before else float("nan")


@contextlib.contextmanager
def local_service(folder: Path, *, port: int = 0) -> Iterator[str]:
    """A service of our own with an embedded worker; yields its URL once it takes work, and stops it at the end."""
    url_file = folder / "url"
    command = [sys.executable, "-m", "rollway_service", "--data-dir", str(folder), "--port", str(port)]
    # The pipe closes when this process ends, however it ends, and the service stops with it.
    command.append("--until-stdin-closes")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ROLLWAY_URL_FILE": str(url_file)}
    log = (folder / "service.log").open("wb")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
    )
    try:
        yield _wait_until_ready(process, url_file, folder / "service.log")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


def _wait_until_ready(process: subprocess.Popen[bytes], url_file: Path, log_file: Path) -> str:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s and process.poll() is None:
        if url_file.is_file():
            url = url_file.read_text()
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/readyz").status_code == 200:
                    return url
        time.sleep(0.1)
    raise RollwayError(f"the service did not start; its log:\n{log_file.read_text()[-4000:]}")


def draw(report: Report, path: Path) -> None:
    """The rewards by step as a PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - only for the picture

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=120)
    indices = [step.index for step in report.steps]
    rewards = [step.reward for step in report.steps]
    axes.plot(indices, rewards, color="#9db4c8", linewidth=1, label="mean reward of the rollouts of a step")
    smooth = [sum(rewards[max(0, i - 9) : i + 1]) / len(rewards[max(0, i - 9) : i + 1]) for i in range(len(rewards))]
    axes.plot(indices, smooth, color="#1f5f8b", linewidth=2, label="mean of the last 10 steps")
    axes.axhline(report.before, color="#b5533c", linestyle="--", label=f"held-out before: {report.before:.3f}")
    axes.axhline(report.after, color="#3c8b5a", linestyle="--", label=f"held-out after: {report.after:.3f}")
    axes.set_xlabel("trainer step")
    axes.set_ylabel("share of right answers, sampled")
    axes.set_ylim(0, max(0.6, *rewards))
    axes.legend(loc="lower right", fontsize=8)
    axes.set_title("A 0.9 M-parameter policy learns to add: GRPO through Rollway")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


Service = Callable[[Path], contextlib.AbstractContextManager[str]]


def run_demo(
    out: Path,
    config: Config | None = None,
    *,
    console: Console | None = None,
    service: Service = local_service,
    told_as: str = "a service (SQLite) with an embedded worker",
) -> Outcome:
    """The whole demo. Leaves a plot in `out` and nothing running.

    `service` starts what is trained against, given a folder of its own, and yields its URL; `told_as` names it.
    """
    config = config or Config()
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rollway-demo-") as scratch:
        console.print(f"Starting {told_as} ...")
        with service(Path(scratch)) as url:
            ready_s = time.monotonic()
            console.print(f"Ready at {url}. Evaluating {config.held_out} held-out problems, then {config.steps} steps.")
            with rollway.Client(url) as client, _progress(console) as progress:
                bar = progress.add_task("", total=config.steps, detail="evaluating the start")

                def on_step(step: Step, report: Report) -> None:
                    progress.update(bar, completed=step.index, detail=_detail(step, report))

                report = train(client, Path(scratch) / "weights", config, on_step)
            wall_s = time.monotonic() - ready_s
    plot = out / "reward.png"
    draw(report, plot)
    outcome = Outcome(report, wall_s, plot)
    console.print(
        f"Sampled accuracy on held-out problems: {report.before:.3f} before, {report.after:.3f} after"
        f" (x{outcome.accuracy_ratio:.2f}), {wall_s:.0f} s. Plot: {plot}"
    )
    return outcome


def _progress(console: Console) -> Progress:
    return Progress(
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
        console=console,
    )


def _detail(step: Step, report: Report) -> str:
    recent = report.steps[-10:]
    seconds = sum(item.wait_s + item.train_s for item in recent)
    tokens_per_s = sum(item.sampled_tokens for item in recent) / seconds
    reward = sum(item.reward for item in recent) / len(recent)
    return f"reward {reward:.3f} {tokens_per_s:,.0f} tokens/s weights v{step.version} staleness {step.staleness:.2f}"

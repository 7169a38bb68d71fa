"""All commands. Each is a few lines over the SDK."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rollway._sync.client import Client
from rollway.cli.output import console, print_json, print_rows
from rollway.errors import RollwayError
from rollway.types import Job, JobCreate, JobProgress

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Rollouts as a service for LLM reinforcement learning."
)
models_app = typer.Typer(no_args_is_help=True, help="Models and their weight versions.")
app.add_typer(models_app, name="models")

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

UrlOption = Annotated[str | None, typer.Option("--url", help="The service (else ROLLWAY_URL, else this machine's).")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON lines instead of tables and bars.")]


def _become(module: str, arguments: list[str]) -> None:
    """Go on as a process of another part of Rollway, which may not be installed beside the SDK."""
    from importlib.util import find_spec  # noqa: PLC0415

    package = module.partition(".")[0]
    if find_spec(package) is None:
        extra = {"rollway_service": "embedded", "rollway_workers": "worker"}[package]
        raise RollwayError(f"{package} is not installed here: pip install 'rollway[{extra}]'")
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


@app.command(context_settings=_PASS_THROUGH)
def up(context: typer.Context) -> None:
    """Serve: REST, SQLite and an embedded worker, until Ctrl-C (see `rollway up --help`)."""
    _become("rollway_service", context.args)


@app.command(context_settings=_PASS_THROUGH)
def worker(context: typer.Context) -> None:
    """Run a worker for a pool (see `rollway worker --help`)."""
    _become("rollway_workers", context.args)


@app.command(context_settings=_PASS_THROUGH)
def rewards(context: typer.Context) -> None:
    """Check answers for rollout workers, by Celery (see `rollway rewards --help`)."""
    _become("rollway_workers.rewards.worker", context.args)


@app.command(context_settings=_PASS_THROUGH)
def steward(context: typer.Context) -> None:
    """Sweep by Celery beat: lost work, deadlines, retention (see `rollway steward --help`)."""
    _become("rollway_service.steward", context.args)


@app.command(context_settings=_PASS_THROUGH)
def control(context: typer.Context) -> None:
    """Drain, pause or resume workers, by the broker (see `rollway control --help`)."""
    _become("rollway_service.control", context.args)


@app.command(context_settings=_PASS_THROUGH)
def doctor(context: typer.Context) -> None:
    """Is everything there and well? (see `rollway doctor --help`)."""
    _become("rollway_service.doctor", context.args)


def _read_job(file: Path) -> dict[str, Any]:
    """The body of a job, checked before a run is made for it."""
    text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RollwayError(f"{file} is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RollwayError(f"{file} holds no JSON object")
    try:
        JobCreate.model_validate({"run_id": "", **body})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, item['loc'])) or 'job'}: {item['msg']}" for item in error.errors()]
        raise RollwayError(f"{file} is no valid job: {'; '.join(faults[:5])}") from None
    return body


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(help="A job as JSON (the body of POST /v1/jobs); - for stdin.")],
    run: Annotated[str | None, typer.Option(help="The run's id (else the file's run_id, else a new run).")] = None,
    model: Annotated[str, typer.Option(help="The model of a new run.")] = "tiny",
    url: UrlOption = None,
    as_json: JsonOption = False,
    watch_it: Annotated[bool, typer.Option("--watch", help="Follow the job to its end.")] = False,
) -> None:
    """Submit a job."""
    body = _read_job(file)
    with Client(url) as client:
        run_id = run or body.pop("run_id", None)
        body.pop("run_id", None)
        handle = client.run(run_id) if run_id else client.start_run(file.stem, model=model)
        job = handle.submit(body.pop("tasks", ()), **body)
        if as_json:
            print_json(job.info)
        else:
            console.print(f"job {job.id} of run {handle.id}: {job.info.progress.tasks} tasks, {job.info.state}")
        if watch_it:
            _watch(client, job.id, as_json=as_json)


@app.command()
def watch(job_id: str, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Follow a job to its end."""
    with Client(url) as client:
        _watch(client, job_id, as_json=as_json)


def _watch(client: Client, job_id: str, *, as_json: bool) -> None:
    job = client.job(job_id)
    if as_json:
        for progress in job.watch():
            print_json(progress)
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
        console=console,
    ) as bars:
        bar = bars.add_task("groups", total=None, detail="")
        for progress in job.watch():
            bars.update(bar, total=progress.tasks, completed=_ended(progress), detail=_detail(progress))
    console.print(_summary(job.refresh()))


def _ended(progress: JobProgress) -> int:
    return progress.groups_ready + progress.groups_dropped + progress.groups_failed + progress.groups_cancelled


def _detail(progress: JobProgress) -> str:
    reward = f"reward {progress.mean_reward:.3f}  " if progress.rollouts_scored else ""
    waiting = f"  waiting for {progress.waiting_for}" if progress.waiting_for else ""
    return f"{reward}{progress.sampled_tokens:,} tokens{waiting}"


def _summary(job: Job) -> str:
    progress = job.progress
    drops = ", ".join(f"{count} {reason}" for reason, count in sorted(progress.drops.items()))
    return (
        f"job {job.id} {job.state}: {progress.groups_ready} groups ready, {progress.rollouts_completed} rollouts"
        f" completed, {progress.rollouts_failed} failed{', dropped: ' + drops if drops else ''}"
    )


@app.command()
def pull(
    run_id: str,
    out: Annotated[Path, typer.Argument(help="Folder for the batches, one .npz and one .json each.")],
    groups: Annotated[int, typer.Option(help="Groups in a batch.")] = 8,
    limit: Annotated[int | None, typer.Option(help="Batches to take (default: until the end of the data).")] = None,
    wait_s: Annotated[float, typer.Option(help="How long to wait for a full batch.")] = 30.0,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lease batches and keep them as files; each is acknowledged as consumed once it is written."""
    import numpy as np  # noqa: PLC0415

    out.mkdir(parents=True, exist_ok=True)
    with Client(url) as client:
        taken = 0
        for index, batch in enumerate(client.run(run_id).batches(groups=groups, timeout_s=wait_s)):
            arrays = {
                f"{position}_{name}": getattr(sample, name)
                for position, sample in enumerate(batch.samples)
                for name in ("token_ids", "behavior_logprobs", "loss_mask", "weight_versions")
            }
            # Named after the batch: pulling into the same folder again overwrites nothing that was consumed.
            np.savez(out / f"{batch.id}.npz", **arrays)
            (out / f"{batch.id}.json").write_text(batch.header.model_dump_json(exclude={"trees"}))
            taken += 1
            if as_json:
                print_json({"batch_id": batch.id, "groups": len(batch), "samples": len(batch.samples)})
            else:
                console.print(f"batch {index}: {len(batch)} groups, {len(batch.samples)} samples")
            if limit is not None and taken == limit:
                batch.consumed(index)
                break
    if not as_json:
        console.print(f"{taken} batches in {out}")


@app.command("runs")
def list_runs(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List runs, newest first."""
    with Client(url) as client:
        print_rows(client.runs(), ("id", "name", "model", "pool"), as_json=as_json)


@app.command("workers")
def list_workers(pool: str | None = None, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List workers."""
    with Client(url) as client:
        columns = ("name", "pool", "state", "slots", "slots_busy", "weight_version")
        print_rows(client.workers(pool), columns, as_json=as_json)


@models_app.command("list")
def list_models(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List models."""
    with Client(url) as client:
        print_rows(
            client.models(), ("name", "latest_version", "vocab_size", "context_length", "source"), as_json=as_json
        )


@models_app.command("register")
def register_model(name: str, folder: Path, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Register a model folder; its weights become version 0."""
    with Client(url) as client:
        model = client.register_model(name, folder)
        print_json(model) if as_json else console.print(f"model {model.name} ({model.id}), version 0")


@models_app.command("publish")
def publish(
    run_id: Annotated[str, typer.Argument(help="A run of the model.")],
    folder: Annotated[Path, typer.Argument(help="Folder with the safetensors weights.")],
    trainer_step: Annotated[int, typer.Option(help="The trainer's step that made them.")],
    parent: Annotated[
        int | None, typer.Option(help="The version they were trained from (default: the latest).")
    ] = None,
    wait_s: Annotated[float, typer.Option(help="Wait so long for all workers to run them.")] = 0.0,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish weights as the next version."""
    with Client(url) as client:
        version = client.run(run_id).publish(folder, trainer_step=trainer_step, parent=parent, wait_s=wait_s)
        if as_json:
            print_json(version)
        else:
            console.print(
                f"version {version.version}, run by {version.workers_active} of {version.workers_total} workers"
            )


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the reward plot goes.")] = Path("demo-out"),
    steps: Annotated[int | None, typer.Option(min=1, help="Trainer steps.")] = None,
    held_out: Annotated[int | None, typer.Option(min=1, help="Held-out problems of each evaluation.")] = None,
    as_json: JsonOption = False,
) -> None:
    """A tiny policy learns to add on this machine's CPU; takes a few minutes."""
    from rollway.demo.run import run_demo  # noqa: PLC0415 - torch
    from rollway.demo.trainer import Config  # noqa: PLC0415

    given = {name: value for name, value in (("steps", steps), ("held_out", held_out)) if value is not None}
    outcome = run_demo(out, Config(**given), console=Console(stderr=True) if as_json else console)
    if as_json:
        print_json(
            {
                "before": outcome.report.before,
                "after": outcome.report.after,
                "ratio": outcome.accuracy_ratio,
                "wall_s": outcome.wall_s,
                "plot": str(outcome.plot),
            }
        )

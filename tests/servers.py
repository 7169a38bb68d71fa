"""Real servers for tests and benches: private, on free ports of loopback, in temporary folders, stopped at the end."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis

_POSTGRES_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def postgres_binary(name: str) -> str:
    for folder in _POSTGRES_FOLDERS:
        if (folder / name).is_file():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"PostgreSQL is not installed ({name} is missing): run `make postgres`")
    return found


class PrivatePostgres:
    """A PostgreSQL server of our own. initdb refuses root, so as root it runs as the user postgres."""

    def __init__(self, *, durable: bool = False) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="rollway-pg-"))
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        self._run(
            postgres_binary("initdb"), "-D", str(self.data), "-U", "rollway", "-A", "trust", "-E", "UTF8", "--no-sync"
        )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "256MB",
            "fsync": "on" if durable else "off",
            "synchronous_commit": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
        }
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        self._log = (self.folder / "log").open("wb")
        self._command = [*self._as_user, postgres_binary("postgres"), "-D", str(self.data), *arguments]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)
        self._wait_until_ready()

    def crash(self) -> None:
        """Stop at once, as in a power cut: open transactions are lost, and the next start recovers."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=20)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://rollway@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        completed = subprocess.run(
            [postgres_binary("psql"), "-X", "-q", "-t", "-A", "-d", self.url(database), "-c", statement],
            check=True,
            capture_output=True,
            text=True,
        )
        return completed.stdout.strip()

    def create_database(self, name: str, template: str = "template0") -> str:
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def stop(self) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, *command: str) -> None:
        subprocess.run([*self._as_user, *command], check=True, capture_output=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            ready = subprocess.run(
                [postgres_binary("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
            )
            if ready.returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")


@contextlib.contextmanager
def private_postgres(*, durable: bool = False) -> Iterator[PrivatePostgres]:
    server = PrivatePostgres(durable=durable)
    try:
        yield server
    finally:
        server.stop()


class PrivateRedis:
    """A redis-server of our own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="rollway-redis-"))
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=5)

    def start(self) -> None:
        if shutil.which("redis-server") is None:
            raise RuntimeError("redis-server is not installed: run `make redis`")
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", "--logfile", str(self.folder / "log")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(redis.RedisError), self.client() as client:
                client.ping()
                return
            time.sleep(0.02)
        raise RuntimeError(f"redis-server did not start:\n{(self.folder / 'log').read_text()}")

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def hang(self) -> None:
        """Stop answering, with all connections open."""
        self.process.send_signal(signal.SIGSTOP)

    def unhang(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.unhang()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def private_redis() -> Iterator[PrivateRedis]:
    server = PrivateRedis()
    try:
        yield server
    finally:
        server.stop()

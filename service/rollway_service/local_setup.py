"""What `rollway up` sets up by itself on a machine of its own: tenant and key, the model and its pool."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from rollway.local_keys import store_key
from rollway.types import ModelCreate, PoolCreate
from rollway_service.core.errors import AlreadyExists, ServiceError
from rollway_service.engines.ports import EngineError
from rollway_service.engines.sglang import SGLangEngine
from rollway_service.operations import keys, models, pools
from rollway_service.operations.context import Caller, Context

DEFAULT_TENANT = "default"


class CannotServe(Exception):
    """What was asked for cannot be started; the message says why and what to do."""


def tiny_policy() -> Path:
    """The demo's checkpoint, which ships with the package."""
    import rollway.demo  # noqa: PLC0415 - only for its folder

    return Path(str(rollway.demo.__file__)).parent / "tiny_policy"


async def open_local(context: Context, *urls: str) -> Caller:
    """The default tenant, with a key for this machine's user in the key file."""
    tenant_id = await keys.ensure_tenant(context, DEFAULT_TENANT)
    token = await keys.add_key(context, tenant_id, "local")
    for url in urls:
        await asyncio.to_thread(store_key, url, token)
    return await keys.authenticate(context, token)


async def served_folder(url: str) -> Path:
    """The folder of the model that a running SGLang serves."""
    engine = SGLangEngine(url)
    try:
        served = (await engine.info()).model_path
    except EngineError as error:
        raise CannotServe(f"the engine at {url} does not answer: {error}") from None
    finally:
        await engine.close()
    if served is None or not await asyncio.to_thread(Path(served).is_dir):
        raise CannotServe(
            f"the engine at {url} serves {served!r}, which is no folder on this machine; name the model's folder with"
            " --model: its tokenizer is needed here"
        )
    return Path(served)


async def ensure_model(context: Context, caller: Caller, name: str, folder: Path) -> None:
    """Register the model in this folder (an absolute path) and its pool, unless they are there from an earlier start."""
    source = str(folder)
    try:
        await models.register_model(context, caller, ModelCreate(name=name, source=source))
    except AlreadyExists:
        registered = await models.get_model(context, caller, name)
        if registered.source != source:
            raise CannotServe(
                f"model {name!r} is registered already, from {registered.source}; give this one another name with"
                " --model-name"
            ) from None
    except ServiceError as error:
        raise CannotServe(f"the model cannot be registered: {error.detail}") from None
    with contextlib.suppress(AlreadyExists):
        await pools.create_pool(context, caller, PoolCreate(name=name, model=name))

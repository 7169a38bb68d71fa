"""The SGLang engine over HTTP. Nothing outside this folder reads SGLang's JSON."""

from rollway_service.engines.sglang.client import SGLangEngine
from rollway_service.engines.sglang.http import SGLangTimeouts

__all__ = ["SGLangEngine", "SGLangTimeouts"]

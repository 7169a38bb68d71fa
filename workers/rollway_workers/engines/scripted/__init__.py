"""The scripted engine: speaks SGLang's HTTP API and answers what a script says, faults included."""

from rollway_workers.engines.scripted.script import Answer, Call, Fault, Responder, seeded_responder
from rollway_workers.engines.scripted.server import ScriptedServer

__all__ = ["Answer", "Call", "Fault", "Responder", "ScriptedServer", "seeded_responder"]

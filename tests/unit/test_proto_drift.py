"""The .proto files say what the wire types say, field by field, and every route is a verb or named as REST's alone."""

import types
import typing

import pytest
from hypothesis import given
from pydantic import BaseModel

import rollway.types
from rollway.proto.codec import CodecError, decode, encode, read
from rollway.proto.v1 import batches_pb2, common_pb2, jobs_pb2, rewards_pb2, rollouts_pb2, rollway_pb2, tasks_pb2
from rollway.proto.verbs import REST_ONLY, VERBS, find_verb
from rollway.types import JobCreate, Rewind, Task, TasksAppend, TreeNode
from rollway_service.api.app import create_app
from rollway_service.api.rpc.public import SERVICE
from tests.strategies import hostile_json, hostile_text

SCALARS = {bool: "BOOL", int: "INT64", float: "DOUBLE", str: "STRING"}
LISTS = {int: "Ints", float: "Doubles", str: "Strings"}
KINDS = {
    "ExactReward": "exact",
    "NumericReward": "numeric",
    "RegexReward": "regex",
    "MathReward": "math",
    "ReasoningGymReward": "reasoning_gym",
    "PythonReward": "python",
    "PostedReward": "posted",
}


def reachable():
    """Messages of the contract that stand for a wire type."""
    waiting = [
        kind
        for method in rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].methods
        for kind in (method.input_type, method.output_type)
    ]
    waiting += [rollouts_pb2.Tree.DESCRIPTOR, rollouts_pb2.Trajectory.DESCRIPTOR]
    seen = {}
    while waiting:
        kind = waiting.pop()
        if kind.full_name in seen:
            continue
        seen[kind.full_name] = kind
        waiting += [field.message_type for field in kind.fields if field.message_type is not None]
    return {
        kind.name: kind for kind in seen.values() if inspect_model(kind.name) is not None and "Entry" not in kind.name
    }


def inspect_model(name):
    found = getattr(rollway.types, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


MESSAGES = reachable()


def bare(annotation):
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def expected(annotation):
    """(how often, proto type) of a pydantic annotation."""
    annotation = bare(annotation)
    if "JsonValue" in str(annotation) or "typing.Any" in str(annotation):
        return "one", "Json"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        inner = [bare(argument) for argument in arguments if argument is not type(None)]
        if len(inner) > 1:
            return "one", "RewardSpec"
        often, kind = expected(inner[0])
        if often == "many":
            item = bare(typing.get_args(inner[0])[0])
            return "one", LISTS.get(item) or LISTS.get(_number(item)) or f"{item.__name__}List"
        return often, kind
    if origin is list:
        often, kind = expected(arguments[0])
        return "many", kind
    if origin is dict:
        often, kind = expected(arguments[1])
        return "map", "Ints" if often == "many" else kind
    if origin is typing.Literal:
        return "one", "STRING"
    if annotation in SCALARS:
        return "one", SCALARS[annotation]
    return "one", annotation.__name__


def _number(item):
    inner = [bare(argument) for argument in typing.get_args(item) if argument is not type(None)]
    return inner[0] if len(inner) == 1 else None


def actual(field):
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return "map", actual(field.message_type.fields_by_name["value"])[1]
    names = {
        field.TYPE_BOOL: "BOOL",
        field.TYPE_INT64: "INT64",
        field.TYPE_DOUBLE: "DOUBLE",
        field.TYPE_STRING: "STRING",
    }
    kind = names[field.type] if field.message_type is None else field.message_type.name
    return ("many" if field.is_repeated else "one"), kind


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_a_message_has_the_fields_of_its_type(name):
    model, message = inspect_model(name), MESSAGES[name]
    fields = {field: info for field, info in model.model_fields.items() if not (name in KINDS and field == "kind")}
    assert set(fields) == set(message.fields_by_name)
    for field, info in fields.items():
        assert actual(message.fields_by_name[field]) == expected(info.annotation), field


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_absence_means_the_default(name):
    """Protobuf cannot tell an empty list from none, and has no null: neither may mean anything but the default."""
    for field, info in inspect_model(name).model_fields.items():
        descriptor = MESSAGES[name].fields_by_name.get(field)
        if descriptor is None or info.is_required():
            continue
        default = info.get_default(call_default_factory=True)
        if descriptor.is_repeated:
            assert not default, field
        if type(None) in typing.get_args(bare(info.annotation)):
            assert default is None, field
        if descriptor.message_type is None and not descriptor.is_repeated:
            assert descriptor.has_presence, field


def test_unions_have_a_field_for_each_kind():
    fields = rewards_pb2.RewardSpec.DESCRIPTOR.fields_by_name
    assert {field.message_type.name: name for name, field in fields.items()} == KINDS


def test_every_route_is_a_verb_or_named_as_rest_only():
    paths = create_app(None).openapi()["paths"]
    routes = {(method.upper(), path) for path, item in paths.items() for method in item}
    verbs = {(verb.method, verb.path) for verb in VERBS}
    assert verbs <= routes
    assert {path for _, path in routes - verbs} == set(REST_ONLY) - {"/openapi.json"}
    methods = rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].methods_by_name
    assert set(methods) == {verb.rpc for verb in VERBS}
    assert rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].full_name == SERVICE


def test_requests_have_the_parameters_of_their_routes():
    paths = create_app(None).openapi()["paths"]
    methods = rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].methods_by_name
    for verb in VERBS:
        schema = paths[verb.path][verb.method.lower()]
        named = {item["name"] for item in schema.get("parameters", []) if item["in"] != "header"}
        if "requestBody" in schema:
            named.add("body")
        assert set(methods[verb.rpc].input_type.fields_by_name) == named, verb.rpc


def test_a_path_finds_its_verb():
    verb, values = find_verb("GET", "/v1/models/tiny/versions/3")
    assert (verb.rpc, values) == ("GetVersion", {"model": "tiny", "version": "3"})
    with pytest.raises(LookupError):
        find_verb("GET", "/metrics")


@given(reference=hostile_json, content=hostile_text, key=hostile_text)
def test_free_values_come_back_as_they_were(reference, content, key):
    metadata = {key: reference, "n": 2**62}
    task = Task.model_construct(messages=[{"role": "user", "content": content}], reference=reference, metadata=metadata)
    message = tasks_pb2.Task()
    from rollway.proto.codec import fill

    fill(message, {"messages": task.messages, "reference": reference, "metadata": metadata})
    again = read(tasks_pb2.Task.FromString(message.SerializeToString()))
    assert again["messages"] == task.messages
    assert again["metadata"] == metadata
    assert again.get("reference") == reference


def test_what_was_set_is_what_arrives():
    body = JobCreate.model_validate(
        {
            "run_id": "run",
            "tasks": [
                {"token_ids": [1, 2], "reference": [1, None, {"a": 0.5}]},
                {"messages": [{"role": "user", "content": "a\0b"}]},
            ],
            "rewards": [{"kind": "numeric"}, {"kind": "python", "function": "f", "arguments": {"x": None}}],
            "sampling": {"max_new_tokens": 4, "seed": -(2**63), "temperature": 0.1 + 0.2},
        }
    )
    again = decode(encode(body, jobs_pb2.JobCreate), JobCreate)
    assert again == body
    assert again.model_fields_set == body.model_fields_set


def test_null_and_nothing_stay_apart():
    assert decode(encode(Rewind(step=None), batches_pb2.Rewind), Rewind) == Rewind(step=None)
    assert decode(encode(Rewind(step=0), batches_pb2.Rewind), Rewind) == Rewind(step=0)
    fields = {"index": 0, "parent": -1, "origin": "model", "turn": 0, "loss_mask": [0], "weight_versions": [-1]}
    for logprobs in (None, [], [None, -0.5]):
        node = TreeNode(token_ids=[1], behavior_logprobs=logprobs, **fields)
        assert decode(encode(node, rollouts_pb2.TreeNode), TreeNode) == node


def test_what_is_not_known_is_refused_with_its_place():
    newer = tasks_pb2.TasksAppend(tasks=[tasks_pb2.Task(), tasks_pb2.Task()])
    newer.tasks[1].MergeFromString(b"\xfa\x06\x01a")
    with pytest.raises(CodecError, match=r"\$\.tasks\[1\]: has fields that this version does not know"):
        read(newer)
    bad = tasks_pb2.TasksAppend(tasks=[tasks_pb2.Task(reference=common_pb2.Json(text="{"))])
    with pytest.raises(CodecError, match=r"\$\.tasks\[0\]\.reference: holds no JSON"):
        read(bad)
    with pytest.raises(CodecError, match="has no kind"):
        read(jobs_pb2.JobCreate(rewards=[rewards_pb2.RewardSpec()]))
    assert read(tasks_pb2.TasksAppend()) == {"tasks": []}
    assert issubclass(TasksAppend, BaseModel)


def test_fields_of_a_newer_service_are_dropped():
    fields = {"index": 0, "parent": -1, "origin": "model", "turn": 0, "loss_mask": [0], "weight_versions": [-1]}
    node = TreeNode(token_ids=[1], **fields)
    message = encode(node, rollouts_pb2.TreeNode)
    message.MergeFromString(b"\xfa\x06\x01a")
    assert decode(message, TreeNode) == node

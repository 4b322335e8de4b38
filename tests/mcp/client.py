"""Asks five questions of `collcost mcp` with the protocol's own client library: client.py PATH-TO-COLLCOST.

Needs the package `mcp`, from 2.0 on; its answers are held to the schemas that the library knows."""
import asyncio
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

QUESTIONS = [
    ("expect", {"collective": "allreduce", "size_bytes": "16MiB", "n": 64, "profile": "dgx-h100"},
     lambda a: a["expect"]["low_s"] < a["expect"]["time_s"] < a["expect"]["high_s"]),
    ("explain", {"what": "allreduce", "algorithm": "ring", "n": 8, "size_bytes": 1 << 20},
     lambda a: a["explain"]["schema"] == "collcost/explain/1" and a["explain"]["id"] == "ring"),
    ("compare", {"collective": "allreduce", "n": 8, "profile": "dgx-h100", "points": [["1GiB", "50ms"]]},
     lambda a: a["compare"]["verdict"] == "ill" and a["compare"]["runs"][0]["causes"]),
    ("choose", {"library": "nccl", "collective": "allreduce", "n": 64, "profile": "dgx-h100"},
     lambda a: len(a["choose"]["intervals"]) > 1),
    ("list", {"what": "machines"},
     lambda a: "dgx-h100" in [m["id"] for m in a["list"]["machines"]]),
    ("plan", {"preset": "hsdp-70b"}, lambda a: a["plan"]["steps"][0]["step_s"] > 0),
]


async def ask(command, mode):
    async with Client(StdioServerParameters(command=command, args=["mcp"]), mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [name for name, _, _ in QUESTIONS], tools
        for name, arguments, holds in QUESTIONS:
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error and holds(answer.structured_content), (name, answer)
        refused = await client.call_tool("expect", {"collective": "allreduce", "size_bytes": "16Mb", "n": 8})
        assert refused.is_error and "megabits" in refused.content[0].text, refused
        print(f"{mode}: {len(QUESTIONS)} questions by revision {client.protocol_version}")


for mode in ["auto", "legacy"]:
    asyncio.run(ask(sys.argv[1], mode))

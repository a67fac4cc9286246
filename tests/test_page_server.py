"""The live page's server: who is let in, how much may be asked, and that nobody holds others up."""

import asyncio
import contextlib
import json
import resource
import struct
import time
from typing import Any

import jax
import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import eqprop as ep
from eqprop.page import Scene, scene_of
from eqprop.page.running import is_loopback
from eqprop.page.server import AT_ONCE, LARGEST, MOST_FAULTS, Server

NET = ep.Hopfield.layered(64, 16, 10)
SETTLE = {"kind": "settle", "input": {"example": 0}, "target": 1}


@pytest.fixture(scope="module")
def scene() -> Scene:
    F = ep.Total(NET, ep.SquaredError())
    return scene_of(F, NET.init(jax.random.key(0)), ep.data.load("digits").test.v, shape=(8, 8))


def run(scene: Scene, talk: Any, **options: Any) -> Any:
    """What `talk(server)` returns, with a server that runs meanwhile."""

    async def both() -> Any:
        async with Server(scene, **options).running() as server:
            return await asyncio.wait_for(talk(server), 400)

    return asyncio.run(both())


def page(server: Server, **changes: Any) -> contextlib.AbstractAsyncContextManager[ClientConnection]:
    """A socket as the page opens it."""
    options = {"origin": f"http://127.0.0.1:{server.port}", "compression": None, "max_size": None} | changes
    token = options.pop("token", server.token)
    return connect(f"ws://127.0.0.1:{server.port}/socket?token={token}", **options)


async def get(server: Server, path: str, host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body of a file."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    host = host or f"127.0.0.1:{server.port}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


async def ask(socket: ClientConnection, message: Any) -> dict[str, Any]:
    await socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return await hear(socket)


async def hear(socket: ClientConnection) -> dict[str, Any]:
    packed = await socket.recv()
    assert isinstance(packed, bytes)
    return json.loads(packed[4 : 4 + struct.unpack("<I", packed[:4])[0]])


def test_the_page_and_its_files_are_small_and_from_here(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        status, headers, body = await get(server, f"/?token={server.token}")
        assert status == 200 and b"live.js" in body
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        status, headers, _ = await get(server, "/live.js")
        assert status == 200 and headers["Content-Type"].startswith("text/javascript")

    run(scene, talk)


@pytest.mark.parametrize("path", ["/../server.py", "/%2e%2e/server.py", "/nothing.js", "//etc/passwd", "/vendor"])
def test_nothing_else_is_given_away(scene: Scene, path: str) -> None:
    async def talk(server: Server) -> int:
        return (await get(server, path))[0]

    assert run(scene, talk) == 404


def test_only_who_has_the_address_comes_in(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        assert (await get(server, "/"))[0] == 403
        assert (await get(server, "/?token=guess"))[0] == 403
        assert (await get(server, f"/?token={server.token}", host="evil.example:80"))[0] == 421
        for changes in ({"token": "guess"}, {"token": ""}, {"origin": "http://evil.example"}, {"origin": None}):
            with pytest.raises(InvalidStatus, match="403"):
                async with page(server, **changes):
                    pass
        async with page(server) as socket:
            assert (await ask(socket, {"kind": "hello", "id": 1}))["title"] == "your energy"

    run(scene, talk)


def test_messages_that_are_none_are_answered_until_there_are_too_many(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        async with page(server) as socket:
            assert "JSON object" in (await ask(socket, "{"))["error"]
            assert "kind=None" in (await ask(socket, {"id": 4}))["error"]
            assert (await ask(socket, SETTLE | {"id": 5}))["id"] == 5
            with pytest.raises(ConnectionClosed) as closed:
                for _ in range(MOST_FAULTS + 1):
                    await ask(socket, b"\x00")
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008

    run(scene, talk)


def test_messages_that_are_too_large_end_the_conversation(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        async with page(server) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await ask(socket, "x" * (LARGEST + 1))
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        async with page(server) as socket:
            assert "title" in await ask(socket, {"kind": "hello"})

    run(scene, talk)


def test_of_many_wishes_to_settle_only_the_newest_is_done_and_too_many_are_refused(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        async with page(server) as socket:
            await ask(socket, SETTLE)
            for number in range(20):
                await socket.send(json.dumps(SETTLE | {"id": number}))
            answers = {reply["id"]: reply for reply in [await hear(socket) for _ in range(20)]}
            assert "sides" in answers[19] and any("dropped" in reply for reply in answers.values())
            many = AT_ONCE + 70  # more than are allowed at once, and not yet so many that the page is shown the door
            for number in range(many):
                await socket.send(json.dumps(SETTLE | {"id": number}))
            replies = [await hear(socket) for _ in range(many)]
            assert any("messages a second" in reply.get("error", "") for reply in replies)
            await asyncio.sleep(0.5)
            assert "sides" in await ask(socket, SETTLE | {"id": -1})

    run(scene, talk)


def test_seats_are_limited_and_a_closed_page_frees_its_own(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        async with page(server) as first, page(server) as second:
            await ask(first, {"kind": "hello"})
            await ask(second, {"kind": "hello"})
            with pytest.raises(InvalidStatus, match="503"):
                async with page(server):
                    pass
            await second.close()
            while len(server.sessions) > 1:
                await asyncio.sleep(0.01)
            async with page(server) as third:
                assert "title" in await ask(third, {"kind": "hello"})
        while server.sessions:
            await asyncio.sleep(0.01)

    run(scene, talk, seats=2)


def test_a_page_that_trains_is_told_and_still_answered(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        async with page(server) as socket:
            assert (await ask(socket, {"kind": "train", "on": True, "id": 1}))["on"]
            progress = [await hear(socket) for _ in range(3)]
            assert all(reply["kind"] == "progress" and reply["losses"] for reply in progress)
            await socket.send(json.dumps(SETTLE | {"id": 2}))
            while (reply := await hear(socket)).get("id") != 2:
                pass
            assert "sides" in reply
            await socket.send(json.dumps({"kind": "train", "on": False, "id": 3}))
            while (reply := await hear(socket)).get("id") != 3:
                pass
            assert reply["on"] is False

    run(scene, talk)


def test_a_page_that_does_not_listen_does_not_hold_others_up(scene: Scene) -> None:
    async def talk(server: Server) -> float:
        async with page(server, max_queue=1) as deaf, page(server) as good:
            await ask(good, SETTLE)
            for number in range(100):  # answers of a megabyte, which nobody reads
                await deaf.send(json.dumps({"kind": "examples", "count": 100, "id": number}))
            took = []
            for _ in range(20):
                begun = time.perf_counter()
                await ask(good, SETTLE)
                took.append(time.perf_counter() - begun)
            return float(np.median(took))

    assert run(scene, talk) < 1.0


def test_only_this_machine_is_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"]))
    assert not any(map(is_loopback, ["0.0.0.0", "192.168.0.1", "::", "example.org"]))


def test_a_port_that_is_taken_is_refused_in_words(scene: Scene) -> None:
    async def talk(server: Server) -> None:
        with pytest.raises(ep.InputError, match=f"port {server.port}"):
            async with Server(scene, port=server.port).running():
                pass

    run(scene, talk)


@pytest.mark.slow
def test_a_thousand_clients_and_a_hundred_thousand_bad_messages(scene: Scene) -> None:
    """It stays up, memory stays bounded, and a good page is answered all the while."""
    bad = [
        b"\x00" * 10,
        "{",
        '{"kind": "settle"}',
        '{"kind": 3}',
        "[" * 1000,
        json.dumps(SETTLE | {"start": {"frame": 99999}}),
    ]

    async def talk(server: Server) -> tuple[int, int, int, list[float]]:
        clients, sent, done = 0, 0, False
        took: list[float] = []

        async def good() -> None:
            async with page(server) as socket:
                while not done:
                    begun = time.perf_counter()
                    assert "sides" in await ask(socket, SETTLE)
                    took.append(time.perf_counter() - begun)
                    await asyncio.sleep(0.05)

        async def hostile() -> None:
            nonlocal sent, clients
            while sent < 100_000 or clients < 1000:
                try:
                    clients += 1
                    async with page(server) as socket:
                        if clients % 100 == 0:
                            await socket.send("x" * (LARGEST + 1))
                        for number in range(100):
                            await socket.send(bad[number % len(bad)])
                            sent += 1
                        socket.transport.abort()  # without a word, as a tab that crashes
                except ConnectionClosed:
                    sent += 1
                except InvalidStatus:  # all seats are taken
                    await asyncio.sleep(0.02)

        await_good = asyncio.create_task(good())
        await asyncio.sleep(0.2)
        await asyncio.gather(*(hostile() for _ in range(14)))
        done = True
        await await_good
        crowd = await asyncio.gather(*(refused_at_once(server) for _ in range(300)))
        return sent, clients, sum(crowd), took

    async def refused_at_once(server: Server) -> bool:
        try:
            async with page(server, open_timeout=30) as socket:
                await ask(socket, {"kind": "hello"})
            return False
        except (InvalidStatus, ConnectionClosed):
            return True

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent, clients, crowd, took = run(scene, talk)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{clients} clients, {sent} messages, {crowd} of 300 refused, {grown:.0f} MB more")
    print(f"a good page: {len(took)} answers, median {np.median(took):.3f} s, 95 % {np.quantile(took, 0.95):.3f} s")
    assert sent >= 100_000 and clients >= 1000 and crowd > 200
    assert np.quantile(took, 0.95) < 1.0 and grown < 500

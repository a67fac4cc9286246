"""The page behind a socket: one thread computes for all, each page has a session, and nobody can hold others up."""

import asyncio
import contextlib
import mimetypes
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response

from eqprop.errors import InputError
from eqprop.page.bundle import STATIC
from eqprop.page.messages import Reply, Request, parse
from eqprop.page.scene import Scene
from eqprop.page.session import Session

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SEATS = 16
"""So many pages at once; each keeps weights of its own."""
LARGEST = 1 << 18
"""Bytes of a message; the largest is a drawn image, or the list of all that was done to the weights."""
A_SECOND, AT_ONCE = 60, 240
"""Messages that a page may send: in a second, and in a burst."""
WAITING = 32
"""Messages that wait for their turn."""
MOST_FAULTS = 100
"""Messages that are no messages, before the page is shown the door."""
POLICY = "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"


@dataclass
class Mailbox:
    """What a page has asked and is not answered yet. Of several wishes to settle only the newest is kept."""

    waiting: deque[Request] = field(default_factory=deque)
    dropped: list[Request] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    def put(self, request: Request) -> None:
        if request.fields.get("kind") == "settle":
            for older in [r for r in self.waiting if r.fields.get("kind") == "settle"]:
                self.waiting.remove(older)
                self.dropped.append(older)
        if len(self.waiting) >= WAITING or len(self.dropped) >= AT_ONCE:
            raise InputError(f"more than {WAITING} messages wait: ask again when some are answered")
        self.waiting.append(request)
        self.news.set()

    def close(self) -> None:
        self.closed = True
        self.news.set()


class Allowance:
    """So many messages a second, and some at once."""

    def __init__(self) -> None:
        self.left, self.asked = float(AT_ONCE), time.monotonic()

    def take(self) -> bool:
        """Whether one more is allowed now."""
        now = time.monotonic()
        self.left = min(AT_ONCE, self.left + A_SECOND * (now - self.asked))
        self.asked = now
        allowed = self.left >= 1
        self.left -= allowed
        return allowed


class Server:
    """Serves a scene to pages on one host and port."""

    def __init__(self, scene: Scene, host: str = "127.0.0.1", port: int = 0, *, seats: int = SEATS):
        self.scene, self.host, self.port, self.seats = scene, host, port, seats
        self.token = secrets.token_urlsafe(16)
        self.sessions: set[Session] = set()
        # One thread computes: each page has at most one wish in its queue, so that they take turns.
        self.desk = ThreadPoolExecutor(1, thread_name_prefix="eqprop-live")

    @property
    def address(self) -> str:
        """What to open in a browser."""
        shown = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{shown}:{self.port}/?token={self.token}"

    def names(self) -> set[str]:
        """The hosts by which the server may be called: others are somebody's web page that points here."""
        hosts = {*LOOPBACK, self.host}
        return {f"{host}:{self.port}" for host in hosts}

    @contextlib.asynccontextmanager
    async def running(self) -> "AsyncIterator[Server]":
        """Serve until the end of the block."""
        try:
            server = await serve(
                self.talk,
                self.host,
                self.port,
                process_request=self.admit,
                max_size=LARGEST,
                max_queue=4,
                write_limit=LARGEST,
                compression=None,
                ping_interval=20,
                ping_timeout=20,
                open_timeout=10,
                close_timeout=2,
            )
        except OSError as error:
            raise InputError(
                f"port {self.port} of {self.host} cannot be used ({error.strerror}): give another"
            ) from error
        self.port = next(iter(server.sockets)).getsockname()[1]
        asyncio.get_running_loop().run_in_executor(self.desk, self.warm_up)
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()
            self.desk.shutdown(wait=False, cancel_futures=True)

    def warm_up(self) -> None:
        """Compile what the first page asks for, while it is being painted."""
        session = Session(self.scene)
        session.answer(Request({"kind": "hello"}))
        if len(self.scene.pixels):
            target = 0 if self.scene.labels else None
            session.answer(Request({"kind": "settle", "input": {"example": 0}, "target": target}))

    def admit(self, connection: ServerConnection, request: HttpRequest) -> Response | None:
        """The answer to an HTTP request; None lets a socket be opened."""
        if request.headers.get("Host") not in self.names():
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this server.")
        address = urlsplit(request.path)
        known = secrets.compare_digest(parse_qs(address.query).get("token", [""])[0], self.token)
        if address.path == "/socket":
            if not known or request.headers.get("Origin") not in {f"http://{name}" for name in self.names()}:
                return _refused(
                    HTTPStatus.FORBIDDEN, "Open the address that `eqprop live` has printed, with its token."
                )
            if len(self.sessions) >= self.seats:
                return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"All {self.seats} seats are taken: close a page.")
            return None
        if address.path == "/":
            if not known:
                return _refused(
                    HTTPStatus.FORBIDDEN, "Open the address that `eqprop live` has printed, with its token."
                )
            return _file(STATIC / "index.html")
        found = FILES.get(address.path)
        return _file(found) if found else _refused(HTTPStatus.NOT_FOUND, "There is nothing here.")

    async def talk(self, connection: ServerConnection) -> None:
        """Answer one page until it is closed; then nothing of it is left."""
        if len(self.sessions) >= self.seats:  # another came in between
            return await connection.close(1013, "all seats are taken")
        session, mailbox = Session(self.scene), Mailbox()
        self.sessions.add(session)
        reader = asyncio.create_task(self._read(connection, mailbox))
        try:
            await self._answer(connection, session, mailbox)
        except ConnectionClosed:
            pass
        finally:
            self.sessions.discard(session)
            reader.cancel()

    async def _read(self, connection: ServerConnection, mailbox: Mailbox) -> None:
        allowance, faults = Allowance(), 0
        try:
            async for message in connection:
                try:
                    if not allowance.take():
                        raise InputError(f"more than {A_SECOND} messages a second: ask less often")
                    mailbox.put(parse(message))
                except InputError as error:
                    faults += 1
                    if faults > MOST_FAULTS:
                        return await connection.close(1008, "too many messages that are none")
                    await connection.send(Reply({"error": str(error), "id": None}).pack())
        except ConnectionClosed:
            pass
        finally:
            mailbox.close()

    async def _answer(self, connection: ServerConnection, session: Session, mailbox: Mailbox) -> None:
        """One wish after the other; with none, some minibatches if the page trains."""
        while not mailbox.closed:
            while mailbox.dropped:
                number = mailbox.dropped.pop(0).fields.get("id")
                await connection.send(Reply({"dropped": True, "id": number if type(number) is int else None}).pack())
            if mailbox.waiting:
                request = mailbox.waiting.popleft()
                await connection.send(await self._compute(session.answer, request))
            elif session.trains:
                if (packed := await self._compute(session.step)) is not None:
                    await connection.send(packed)
            else:
                mailbox.news.clear()
                if not mailbox.waiting and not mailbox.dropped and not mailbox.closed:
                    await mailbox.news.wait()

    async def _compute(self, work: Callable[..., Reply | None], *given: Any) -> Any:
        """Done by the thread that computes, when it is this page's turn."""

        def packed() -> bytes | None:
            reply = work(*given)
            return None if reply is None else reply.pack()

        return await asyncio.get_running_loop().run_in_executor(self.desk, packed)


def _listed() -> dict[str, Path]:
    """The files of the page, by the path that asks for them; no other file can be asked for."""
    return {f"/{path.relative_to(STATIC).as_posix()}": path for path in STATIC.rglob("*") if path.is_file()}


FILES = _listed()


def _file(path: Path) -> Response:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = "text/javascript" if path.suffix == ".js" else kind
    return _response(HTTPStatus.OK, f"{kind}; charset=utf-8", path.read_bytes())


def _refused(status: HTTPStatus, reason: str) -> Response:
    return _response(status, "text/plain; charset=utf-8", f"{reason}\n".encode())


def _response(status: HTTPStatus, kind: str, body: bytes) -> Response:
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Cache-Control": "no-store",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",  # the address has the token in it
        "X-Content-Type-Options": "nosniff",
    }
    return Response(status.value, status.phrase, Headers(**headers), body)

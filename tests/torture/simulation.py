"""How is an interleaving of many writers run again exactly as it was?

In a simulation the workers are threads of one process, and only one of them ever runs: at each call of the store it gives
its turn back, and the dice decide who goes on. The same seed gives the same order of storage calls, so whatever a
simulation finds can be found again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Semaphore, Thread, local

from tests.support.stores import HookedStore

from ebbtide.storage import ObjectStore

__all__ = ["TurnStore", "Turns"]


class _Player:
    def __init__(self, number: int, play: Callable[[], None]) -> None:
        self.number = number
        self.play = play
        self.may_go = Semaphore(0)
        self.is_done = False
        self.error: BaseException | None = None


class Turns:
    """`trace` is who made which storage call, in order."""

    def __init__(self, seed: str) -> None:
        self.trace: list[tuple[int, str]] = []
        self._dice = Random(f"{seed}/turns")
        self._back = Semaphore(0)
        self._mine = local()

    def pause(self, op: str) -> None:
        """Give the turn back. Threads that the engine starts itself run inside their worker's turn."""
        player = getattr(self._mine, "player", None)
        if player is None:
            return
        self.trace.append((player.number, op))
        self._back.release()
        player.may_go.acquire()

    def run(self, plays: list[Callable[[], None]]) -> None:
        players = [_Player(number, play) for number, play in enumerate(plays)]
        threads = [Thread(target=self._live, args=(player,), daemon=True) for player in players]
        for thread in threads:
            thread.start()
        alive = list(players)
        while alive:
            player = self._dice.choice(alive)
            player.may_go.release()
            self._back.acquire()
            if player.is_done:
                alive.remove(player)
        for thread in threads:
            thread.join()
        for player in players:
            if player.error is not None:
                raise player.error

    def _live(self, player: _Player) -> None:
        self._mine.player = player
        player.may_go.acquire()
        try:
            player.play()
        except BaseException as error:
            player.error = error
        finally:
            player.is_done = True
            self._back.release()


class TurnStore(HookedStore):
    """A store at which workers take turns."""

    def __init__(self, inner: ObjectStore, turns: Turns) -> None:
        super().__init__(inner)
        self._turns = turns

    def before(self, op: str, path: str) -> None:
        self._turns.pause(op)

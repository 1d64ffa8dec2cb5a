"""How do OPTIMIZE and REORG become requests?"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ebbtide.commands.optimize.answer import optimize_frame
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest
from ebbtide.commands.purge.command import PurgeCommand, PurgeRequest
from ebbtide.session_settings import optimize_settings
from ebbtide.sql.maintenance_statements import Optimize, Reorg
from ebbtide.sql.session import SqlSession
from ebbtide.temp_views import refresh_changed

__all__ = ["run_optimize", "run_reorg"]


def run_optimize(session: SqlSession, statement: Optimize) -> DataFrame:
    store = session.store(statement.path)
    request = OptimizeRequest(
        store,
        statement.where,
        statement.zorder_by,
        optimize_settings(session.spark),
        full=statement.full,
        options=session.options(statement.path, in_transaction=False),
    )
    result = OptimizeCommand(session.spark, request).run()
    refresh_changed(session.spark, store.url)
    return optimize_frame(session.spark, store.spark_path, result.metrics)


def run_reorg(session: SqlSession, statement: Reorg) -> DataFrame:
    store = session.store(statement.path)
    options = session.options(statement.path, in_transaction=False)
    request = PurgeRequest(store, statement.where, optimize_settings(session.spark), options=options)
    result = PurgeCommand(session.spark, request).run()
    refresh_changed(session.spark, store.url)
    return optimize_frame(session.spark, store.spark_path, result.metrics)

"""`db.insert`: rows from Python into a relation, as one statement."""

from __future__ import annotations

from midstream.ingest.sources import FileSource, FrameSource, RowSource, read_source
from midstream.relations.stream import Stream
from midstream.runtime import copying
from midstream.runtime.writing import Writer
from midstream.serving.execute import target_of
from midstream.serving.result import Result
from midstream.serving.session import Session


def insert(session: Session, name: str, data: object) -> Result:
    source = read_source(data)
    if isinstance(source, RowSource):
        state = session.store.catalog.state
        known = state.relations.get(state.name_of(name))
        columns = None if source.by_name else getattr(known, "columns", ())
        if isinstance(known, Stream) and (result := session.gathered(known, source.rows, columns)) is not None:
            return result

    def work(writer: Writer) -> int:
        table = target_of(writer.transaction, writer.transaction.state.name_of(name), "insert into")
        if isinstance(source, FileSource):
            return copying.copy_path(writer, table, str(data), {"format": source.format, **source.options})
        if isinstance(source, FrameSource):
            return copying.copy_frame(writer, table, source.frame)
        return writer.insert_source(table, source)

    rows, scn = session.writing(work, session.context())
    return Result(status=f"INSERT 0 {rows}", scn=scn)

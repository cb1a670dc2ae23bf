"""Opening a database again: what no SCN names is taken back.

A process that died may leave Delta versions that the catalog never published, files that no version
names, and folders of tables that were never created. None of it is visible; all of it goes here.
"""

from __future__ import annotations

import shutil

from midstream.relations.schema import has_folder
from midstream.runtime.store import Store


def recover(store: Store) -> None:
    state = store.catalog.state
    for relation in state.relations.values():
        if has_folder(relation):
            _take_back_unpublished(store, relation.id, state.versions[relation.id])
            _delete_orphans(store, relation.id, state.versions[relation.id])
    known = {str(table_id) for table_id in store.catalog.table_ids()}
    for path in store.tables_path.iterdir():
        if path.name not in known:
            shutil.rmtree(path, ignore_errors=True)


def _take_back_unpublished(store: Store, table_id: int, published: int) -> None:
    folder = store.folder(table_id)
    if not (folder.path / "_delta_log" / f"{published + 1:020d}.json").exists():
        return
    newest = folder.version()
    if newest != published and set(folder.files(newest)) != set(folder.files(published)):
        folder.take_back(published)


def _delete_orphans(store: Store, table_id: int, published: int) -> None:
    """Files of statements that never committed."""
    folder = store.folder(table_id)
    needed = {file.path for file in folder.files(published)} | store.catalog.known_paths(table_id)
    for path in [*folder.path.glob("*.parquet"), *folder.path.glob("_change_data/*.parquet")]:
        if str(path.relative_to(folder.path)) not in needed:
            path.unlink(missing_ok=True)

"""The durable log: every row that a stream acknowledged, in the order of its SCN, until all readers have it.

`files` is the file system that it writes through; `frames` are checked pieces of a file; `records` are what frames
hold; `journal` appends them, many inserts with one sync; `batches` are what readers get; `backlog` makes inserts wait
when readers are behind.
"""

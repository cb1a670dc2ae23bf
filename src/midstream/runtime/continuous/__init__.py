"""Continuous queries and materialized views over tables: what commits changed of an answer, computed away from them.

computing      the change of a query between two SCNs, as pieces for the engine
texts          SQL around it: kinds of changes, and what is done to a stored answer
log            what a query has handed out, and how far it has come; `tidying` keeps it small
stepping       the changes of all queries that are due, in one job, handed on; `settled` says from which SCN to which
queries        when each is computed, and who waits for it
answers        queries over continuous views; `streamed` those over streams
materialized   stored answers, brought up to date by changes
delivering     to tables, queues and triggers; `changes` and `snapshots` for subscribers
defining       CREATE and ALTER; `destinations`, `takers`, `stored_views` and `naming` have the rest of it
"""

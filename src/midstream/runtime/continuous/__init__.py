"""Continuous queries and materialized views over tables: what commits changed of an answer, computed away from them.

computing      the change of a query between two SCNs, as pieces for the engine
log            what a query has handed out, and how far it has come
queries        when each is computed, and who waits for it
materialized   stored answers, brought up to date by changes
delivering     to tables, queues and triggers
defining       CREATE, ALTER and DROP
"""

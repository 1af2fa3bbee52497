"""A Kafka cluster in memory, and the ports of a worker on it, for the contract suite and the simulation.

    runtime       virtual time, signals, and the connection of one process, by which faults are injected
    partition     records, control records, transactions and leader epochs of one partition
    transactions  the transaction coordinator
    group         the group coordinator: members, generations, offsets
    broker        the cluster: nodes with clocks of their own, topics, groups
    source, log, sink, offsets, reader     the ports

Rules:

* Nothing here reads a real clock, starts a thread, or chooses by hash order: what happens is a function of the calls
  and of what the connections draw.
* State is changed between two hooks, never across one: the hook of a connection may switch to another actor.
* Where Kafka does something else, this is wrong: ``tests/contract`` runs on both.
"""

"""The state of a group as its brokers describe it: workers, partitions, log, rules, and what is wrong."""

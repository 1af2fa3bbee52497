"""The state of a group as its brokers tell it: workers, partitions, log, rules, and what is wrong."""

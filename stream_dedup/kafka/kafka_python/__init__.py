"""The ports on kafka-python, and what only it is asked: topics, groups, open transactions."""

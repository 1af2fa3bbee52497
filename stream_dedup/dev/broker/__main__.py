"""Prints the folder of Kafka's jars; Maven fetches them where they are missing. For ``make kafka-image``."""

from stream_dedup.cli.output import write_lines
from stream_dedup.dev.broker.jvm import install_jars
from stream_dedup.dev.scripts import say_errors

if __name__ == "__main__":
    say_errors()
    write_lines(str(install_jars()))

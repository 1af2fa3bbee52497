"""Archives by Apache Spark: fingerprints articles on many machines, and finds the near ones among them.

For archives that one machine cannot fingerprint; a stream needs no Spark, it scales by Kafka's consumer groups. Rules:

* The entries are those of the worker: the same core makes them, in each Python process of Spark by one fingerprinter.
  An executor whose dictionaries differ from the driver's stops the job.
* The matches are those of the reference (``audit.plain_near``) for a log of these articles in the given order.
* ``fingerprint`` starts no job. ``near_duplicates`` starts a small one, which checks the order.

The driver and each executor need ``pip install 'stream-dedup[spark]'``, in the same version.
"""

from stream_dedup.extras import SPARK_PACKAGES, not_installed, pip_command

try:
    from stream_dedup.spark.fingerprinting import fingerprint
    from stream_dedup.spark.near import near_duplicates
except ModuleNotFoundError as error:
    package = str(error.name).partition(".")[0]
    if package not in SPARK_PACKAGES:
        raise
    raise ModuleNotFoundError(
        not_installed("stream_dedup.spark", [package], pip_command("spark")), name=error.name
    ) from None

__all__ = ["fingerprint", "near_duplicates"]

"""Pure: values in, values out. No Kafka, RocksDB, clock, randomness, logging or files."""

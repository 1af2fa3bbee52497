"""What is known of Kafka: one folder for each client, and what a command does to topics, offsets and the log."""

"""What is known of Kafka's protocol: client, topics, log, offsets."""

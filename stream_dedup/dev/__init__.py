"""For development: a broker, a demonstration and its samples. Nothing else imports it."""

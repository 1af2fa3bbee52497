"""Enters published articles into the log, from archives or a topic, without output."""

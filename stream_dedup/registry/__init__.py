"""Values in the wire format of a schema registry: what they begin with, their schemas, and the records they hold."""

"""The HTTP service: what would an article be, as of now?

    run        builds the service and runs it until a signal
    server     the HTTP server, and what a client may use of it: token, bodies, time, connections
    api        the routes for programs; ``pages`` those for people
    checking   texts of a request to verdicts; ``explaining`` why two articles match
    follower   the thread that owns the index and follows the log
    reading    what requests read of Kafka: texts, the state of the consumer group

The service reads. It appends nothing to the log, commits no offset and keeps no article text. Its rules and its scheme
are those of the log.
"""

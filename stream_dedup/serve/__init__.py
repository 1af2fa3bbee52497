"""The HTTP service: what would an article be, as of now?

    run          builds the service and runs it until a signal
    follower     the thread that owns the index and follows the log
    checking     texts of a request to verdicts
    app          the routes (its docstring says how pages are added)
    limits       what a client may use: bodies, time, tokens
    connections  the HTTP server: sockets, connections, time limits of the protocol

The service reads. It appends nothing to the log, commits no offset and keeps no article text. Its rules and its scheme
are those of the log.
"""

"""Worker processes: torch aborts from C++, hangs and eats memory, so no check runs in the caller's process.

A job is a function that reports by messages. It runs in one of three places:

``server``
    a child of a server that has imported torch, and exported once (`server`, `warming`); for jobs that have a name.
``fork``
    a child forked from the caller (`fork`); for cases that exist only as objects.
``none``
    the caller's own process (`inline`); nothing limits it.

`multiprocessing` has a fork server, but it hides a failed preload, keeps the environment that it was started with and
runs the caller's main module again in each child.
"""

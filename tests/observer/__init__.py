"""An independent observer: it shares no code with the runtime and does not call it.

It reads the files of a session by their documented format, and the processes from `/proc`.
"""

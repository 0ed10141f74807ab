"""xpipe inside other tools, one module per tool. Each needs its tool, which xpipe itself does not.

Holds no algorithm and nothing that other rooms import.
"""

"""What every room stands on: CSR rules, files, seeds, threads, backends, compiled kernels, checked JSON.

Holds no algorithm and no format: it imports nothing of xpipe but `errors`.
"""

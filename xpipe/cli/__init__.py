"""The command line: one file per verb, tables, progress and doctor.

Holds no work: options go in, an exit code comes out.
"""

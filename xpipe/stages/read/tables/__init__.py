"""Stage read for tables: a text, an id, labels and groups in columns; or texts by line with a matrix of labels."""

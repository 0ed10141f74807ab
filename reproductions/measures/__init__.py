"""What reproductions measure: one module per experiment. Each has a function `measure(options, data)`."""

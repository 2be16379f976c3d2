"""The check ``opset``: does the program still compute the same in core ATen, and what does it hold that runtimes lack?

`check` decomposes the program and compares it anew, without its guards, which no runtime has. `facts` reads the result:
operators outside core ATen, sizes without a bound, complex values, mutation, what is returned beside tensors.
`profiles` says which of these count for a runtime, `lowering` asks the runtime itself where it is installed, and
`customs` has torch look at operators of the user's own with the inputs that they get here.
"""

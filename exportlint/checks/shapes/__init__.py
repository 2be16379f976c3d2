"""The check ``shapes``: is the program the model for every shape and value that it should accept?"""

"""The check ``device``: does the model follow its inputs to another device?"""

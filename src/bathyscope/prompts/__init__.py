"""What a model is measured on: where prompts come from, and how text becomes token ids.

``source.resolve`` turns whatever the user gives into a ``PromptSet``; ``tokenize.tokenize`` turns that into
token ids and makes every check that can be made before any compute.
"""

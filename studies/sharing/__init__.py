"""A Transformer against a MoEUT of equally many parameters: who works later, and does depth go with accuracy?"""

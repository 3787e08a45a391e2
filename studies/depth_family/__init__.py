"""Do models that are given more blocks use more of them, and what does the place of norms change?"""

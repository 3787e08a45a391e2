"""Does writing steps save depth, and does a task use fewer layers when texts are learned along with it?"""

"""Does depth rise with the steps of a problem, and with which of two models solves it?"""

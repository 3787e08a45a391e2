"""Does a measured choice of blocks to leave out beat cheap rules on other text?"""

"""hedgectl: would a second copy of a slow request help, with which policy, and at what price?"""

__version__ = "0.1.0"

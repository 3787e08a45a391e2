"""Constants of a model: what it computes with that is neither in its weights nor in its configuration.

Tables that no checkpoint holds (rotary frequencies, masks) and plain values in modules (an attention's ``scaling``, a
norm's epsilon) follow from the configuration, until somebody changes them in memory; and so do the methods of its
modules (``replaced``). What counts is therefore the
difference from the model that the configuration makes: a model as it was loaded has none, on every version of the
library, and its hash is that of its weights alone.
"""

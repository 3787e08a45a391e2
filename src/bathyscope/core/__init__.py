"""Small tools that know nothing about models: progress, interrupts, strict readers, plug-ins, text."""

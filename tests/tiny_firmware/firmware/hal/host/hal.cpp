// Nothing of this chip is needed.

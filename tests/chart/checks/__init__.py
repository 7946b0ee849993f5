"""Checks of the Helm chart and of what is deployed beside it, without a cluster: one module for each kind of check."""

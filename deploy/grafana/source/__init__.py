"""The Grafana dashboards: `make chart-write` makes deploy/grafana/*.json from these modules."""

import json

from . import deliver, overview, scaling


def texts():
    """File name → JSON."""
    built = {"overview.json": overview.build(), "scaling.json": scaling.build(), "deliver.json": deliver.build()}
    return {name: json.dumps(dashboard, indent=1) + "\n" for name, dashboard in built.items()}

"""Rows and panels of a dashboard, in Grafana's classic JSON. Nothing here changes from run to run: no ids of its own, no time."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
HEIGHT = 8
SCHEMA_VERSION = 39


def selector(**labels):
    """The labels that every expression has, and more; a value that begins with `~` is a pattern."""
    more = "".join(
        f', {key}=~"{value[1:]}"' if value.startswith("~") else f', {key}="{value}"' for key, value in labels.items()
    )
    return '{job="mailrail", namespace=~"$namespace", pipeline=~"$pipeline"' + more + "}"


def series(panel_type, title, description, unit, targets, width=8, height=HEIGHT, **options):
    """A panel of `targets`: (expression, legend) pairs."""
    panel = {
        "type": panel_type,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "size": (width, height),
        "fieldConfig": {"defaults": {"unit": unit, **options.pop("defaults", {})}, "overrides": []},
        "targets": [
            {
                "datasource": DATASOURCE,
                "expr": expression,
                "legendFormat": legend,
                "refId": chr(ord("A") + index),
                "exemplar": False,
            }
            for index, (expression, legend) in enumerate(targets)
        ],
        "options": options,
    }
    return panel


def graph(title, description, unit, *targets, **options):
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    return series(
        "timeseries",
        title,
        description,
        unit,
        targets,
        legend=legend,
        tooltip={"mode": "multi", "sort": "desc"},
        **options,
    )


def stat(title, description, unit, expression, **defaults):
    options = {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return series("stat", title, description, unit, [(expression, "")], width=4, height=4, defaults=defaults, **options)


def thresholds(*steps):
    """(value, colour) pairs; the first value is None."""
    return {"thresholds": {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}}


def quantiles(metric, **labels):
    """The median and what the slowest 5 % and 1 % take."""
    bucket = f"sum by (le) (rate({metric}_bucket{selector(**labels)}[$__rate_interval]))"
    return [
        (f"histogram_quantile({quantile}, {bucket})", name)
        for quantile, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    ]


def row(title, *panels):
    return title, panels


def layout(rows):
    """Places panels from left to right below their row's title."""
    placed, y = [], 0
    for title, panels in rows:
        placed.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
                "panels": [],
            }
        )
        y, x, tallest = y + 1, 0, 0
        for panel in panels:
            panel = dict(panel)
            width, height = panel.pop("size")
            if x + width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            panel["gridPos"] = {"h": height, "w": width, "x": x, "y": y}
            x, tallest = x + width, max(tallest, height)
            placed.append(panel)
        y += tallest
    return placed


def variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "sort": 1,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard(uid, title, description, rows):
    links = {
        "type": "dashboards",
        "tags": ["mailrail"],
        "title": "mailrail",
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }
    datasource = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["mailrail"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [links],
        "annotations": {"list": []},
        "templating": {
            "list": [
                datasource,
                variable("namespace", "Namespace", 'label_values(up{job="mailrail"}, namespace)'),
                variable("pipeline", "Pipeline", 'label_values(up{job="mailrail", namespace=~"$namespace"}, pipeline)'),
            ]
        },
        "panels": layout(rows),
    }

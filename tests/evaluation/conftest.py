"""The records made by hand that the reports use too."""

from __future__ import annotations

from tests.reports.conftest import make_record, make_stream

__all__ = ["make_record", "make_stream"]
